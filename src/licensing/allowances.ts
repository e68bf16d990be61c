/**
 * What a license allows its clients beside tier and monthly limit: machines, releases, names of machines, days without a
 * network. Each value is one column of `licenses`; null means the usual. They are listed here once, for every statement.
 */
import * as v from "valibot";
import { fieldsOf, renderFields } from "../base/answer_fields.ts";
import { renderCount } from "../base/render_count.ts";
import { booleanField, numberField, oneOf, type Rule, wholeNumber } from "../base/rule.ts";
import type { Fragment, Sql } from "../database/mod.ts";
import { hasSeats, MAX_MACHINES, type Places, SEAT_MINUTES } from "./places.ts";

export interface Allowances extends Places {
  /** How many machines its clients may release by their ids in 30 days; null: the usual number. */
  readonly selfReleases: number | null;
  /** Whether its clients see the names of its machines; null: if they are node-locked. */
  readonly showsMachines: boolean | null;
  /** For how many days its clients get signed licenses; 0: for none; null: as the tier says. */
  readonly maxOfflineDays: number | null;
}

/** Allowances as a request names them. A value that is undefined is left out. */
export type RequestedAllowances = { readonly [Name in keyof Allowances]?: Allowances[Name] | undefined };

/** The rule for the releases by id. */
export const SELF_RELEASES = wholeNumber(0, 1_000_000);
/** The rule for the days without a network. */
export const MAX_OFFLINE_DAYS = wholeNumber(0, 3_650);
const YES_NO = oneOf(["yes", "no"]);
/** The rule for a value that is true or false, as commands and forms have it. */
export const YES_OR_NO: Rule<boolean> = {
  ...YES_NO,
  parse(text) {
    const word = YES_NO.parse(text);
    return word && word === "yes";
  },
};

const COLUMNS = {
  maxMachines: ["max_machines", "integer"],
  seatMinutes: ["seat_minutes", "integer"],
  selfReleases: ["self_releases", "integer"],
  showsMachines: ["shows_machines", "boolean"],
  maxOfflineDays: ["max_offline_days", "integer"],
} as const satisfies Readonly<Record<keyof Allowances, readonly [column: string, type: string]>>;

type Name = keyof typeof COLUMNS;
const ENTRIES = Object.entries(COLUMNS) as readonly (readonly [Name, (typeof COLUMNS)[Name]])[];

/** The names of the values, in their order. */
export const ALLOWANCES = ENTRIES.map(([name]) => name);

/** Those that are no places: nearly every license has the usual ones, and no restricted actor gives others. */
export const PRIVILEGES = ["selfReleases", "showsMachines", "maxOfflineDays"] as const;

/** Their names in answers. */
export const PRIVILEGE_FIELDS: readonly string[] = PRIVILEGES.map((name) => COLUMNS[name][0]);

const field = fieldsOf<Allowances>();

/**
 * The allowances, for every answer to operators that has the monthly limit of the license. Requests are checked by the same
 * schemas.
 */
export const ALLOWANCE_FIELDS = {
  max_machines: field(
    v.nullable(numberField(MAX_MACHINES)),
    ({ maxMachines }) => maxMachines,
    "The most machines of the license; null: they are not counted",
  ),
  seat_minutes: field(
    v.nullable(numberField(SEAT_MINUTES)),
    ({ seatMinutes }) => seatMinutes,
    "Minutes from the last heartbeat of a machine until it loses its place; null: never. Up to 1,440 it has a floating seat, " +
      "otherwise it is node-locked",
  ),
  self_releases: field(
    v.nullable(numberField(SELF_RELEASES)),
    ({ selfReleases }) => selfReleases,
    "How many machines clients may release by their ids in 30 days; null: 3, or for floating seats ten times the places in a day",
  ),
  shows_machines: field(
    v.nullable(booleanField()),
    ({ showsMachines }) => showsMachines,
    "Whether clients see the names of the machines; null: if they are node-locked",
  ),
  max_offline_days: field(
    v.nullable(numberField(MAX_OFFLINE_DAYS)),
    ({ maxOfflineDays }) => maxOfflineDays,
    "For how many days clients get signed licenses; 0: for none; null: as the tier says",
  ),
} as const;

/** Returns the allowances in the body of a request. */
export function allowancesOfBody(
  body: {
    readonly [Name in keyof typeof ALLOWANCE_FIELDS]?:
      | v.InferOutput<(typeof ALLOWANCE_FIELDS)[Name]["schema"]>
      | undefined;
  },
): RequestedAllowances {
  return {
    maxMachines: body.max_machines,
    seatMinutes: body.seat_minutes,
    selfReleases: body.self_releases,
    showsMachines: body.shows_machines,
    maxOfflineDays: body.max_offline_days,
  };
}

/** Renders the allowances of a license as JSON. */
export function renderAllowances(of: Allowances) {
  return renderFields(ALLOWANCE_FIELDS, of);
}

/** Returns the allowances of anything that has them, without the rest. */
export function allowancesOf(of: Allowances): Allowances {
  const { maxMachines, seatMinutes, selfReleases, showsMachines, maxOfflineDays } = of;
  return { maxMachines, seatMinutes, selfReleases, showsMachines, maxOfflineDays };
}

/** Returns the allowances after a change. Without a machine limit a license has no seat minutes. */
export function changedAllowances(before: Allowances, change: RequestedAllowances): Allowances {
  const given = Object.entries(allowancesGiven(change)).filter(([, value]) => value !== undefined);
  return { ...allowancesOf(before), ...Object.fromEntries(given) };
}

/** Returns what a change gives, with the seat minutes that a missing machine limit removes. */
function allowancesGiven(change: RequestedAllowances): RequestedAllowances {
  const { maxMachines, seatMinutes, selfReleases, showsMachines, maxOfflineDays } = change;
  const minutes = maxMachines === null && seatMinutes === undefined ? null : seatMinutes;
  return { maxMachines, seatMinutes: minutes, selfReleases, showsMachines, maxOfflineDays };
}

/** Says in words how many releases by id there may be, and whether that is the usual number, which follows from the places. */
export function describeSelfReleases({ selfReleases, ...places }: Allowances): string {
  if (selfReleases !== null) return `${renderCount(selfReleases)} in 30 days`;
  return hasSeats(places) ? "ten times the places in a day (usual)" : "3 in 30 days (usual)";
}

/** Tells whether clients see the names of machines. */
export function showsNames({ showsMachines, ...places }: Allowances): boolean {
  return showsMachines ?? !hasSeats(places);
}

/** Says in words whether clients see names, and whether that is usual for such machines. */
export function describeShowsMachines(of: Allowances): string {
  const shown = showsNames(of) ? "yes" : "no";
  return of.showsMachines === null ? `${shown} (usual)` : shown;
}

/** Says in words for how long a client gets a signed license. */
export function describeOfflineDays({ maxOfflineDays }: Allowances): string {
  return maxOfflineDays === null ? "as the tier says" : renderCount(maxOfflineDays);
}

const list = (sql: Sql, render: (column: string, name: Name, type: string) => string): Fragment =>
  sql`${sql.unsafe(ENTRIES.map(([name, [column, type]]) => render(column, name, type)).join(", "))}`;

/** Returns the columns of a row, `l.` or `new_` being what stands before each name. */
export function allowanceColumns(sql: Sql, before: "" | "l." | "new_" = ""): Fragment {
  return list(sql, (column) => `${before}${column}`);
}

/** Returns the columns of the license `l` under the names of {@linkcode Allowances}. */
export function selectAllowances(sql: Sql): Fragment {
  return list(sql, (column, name) => `l.${column} as "${name}"`);
}

/** Returns the assignments of an update of `licenses` from a row with the new values. */
export function setAllowances(sql: Sql): Fragment {
  return list(sql, (column) => `${column} = new_${column}`);
}

/** Returns the columns with their types, for a list of columns. */
export function allowanceTypes(sql: Sql): Fragment {
  return list(sql, (column, _, type) => `${column} ${type}`);
}

/** Returns the values of a `jsonb_build_object` by the names of {@linkcode Allowances}. */
export function allowancePairs(sql: Sql, before: "" | "new_"): Fragment {
  return list(sql, (column, name) => `'${name}', ${before}${column}`);
}

/** Returns the values in the order of the columns; what is undefined becomes null. */
export function allowanceValues(sql: Sql, of: RequestedAllowances): Fragment {
  return ENTRIES.map(([name, [, type]]) => sql`${of[name] ?? null}::${sql.unsafe(type)}`).reduce(
    (before, value) => sql`${before}, ${value}`,
  );
}

/** Returns the columns `new_…` of a change: the given values, and those of the row where none is given. */
export function newAllowances(sql: Sql, change: RequestedAllowances): Fragment {
  const given = allowancesGiven(change);
  return ENTRIES.map(([name, [column, type]]) => {
    const to = sql`${given[name] ?? null}::${sql.unsafe(type)}`;
    return sql`case when ${given[name] !== undefined}::boolean then ${to} else ${sql(column)} end as ${sql(`new_${column}`)}`;
  }).reduce((before, value) => sql`${before}, ${value}`);
}

/** Returns SQL that adds the allowances of a license to a `jsonb` of the audit log, without those that are the usual. */
export function withAllowances(sql: Sql, row: Fragment): Fragment {
  const pairs = ENTRIES.map(([, [column]]) => sql`${sql.unsafe(`'${column}'`)}, ${row}.${sql(column)}`);
  return sql`|| jsonb_strip_nulls(jsonb_build_object(${pairs.reduce((before, pair) => sql`${before}, ${pair}`)}))`;
}

/** Returns allowances from their texts in a page, in their order; null for the usual, and for a text that was altered. */
export function parseAllowances(texts: readonly string[]): Allowances {
  const parsed = ENTRIES.map(([name, [, type]], index) => {
    const text = texts[index] ?? "";
    if (type === "boolean") return [name, text === "true" ? true : text === "false" ? false : null];
    return [name, /^\d{1,9}$/.test(text) ? Number(text) : null];
  });
  return Object.fromEntries(parsed);
}

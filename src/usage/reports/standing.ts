/**
 * Where a machine stands: how far its reports were imported, and what its license has used. Decides whether a report is the
 * next one, and says what it would change. The statement of the import checks the same once more.
 */
import { DAY_MS, type Month, monthOf, toTimestamp } from "../../base/calendar.ts";
import { toId } from "../../base/ids.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import type { Database, Fragment, Sql } from "../../database/mod.ts";
import { effectiveLimit, refuseUnknownLicense } from "../../licensing/mod.ts";
import type { UsageReport } from "./parse_report.ts";

/** What a month has: the units that its quota counts, and those beyond the limit. */
export interface MonthCounts {
  readonly used: number;
  readonly over: number;
}

/** What a report changes in a month, as it is stored and answered. */
export interface ChangedMonth {
  /** `2026-11`. */
  readonly month: string;
  /** The units of the report. */
  readonly units: number;
  /** Those of them that are beyond the limit. */
  readonly over: number;
  readonly before: MonthCounts;
  readonly after: MonthCounts;
}

/** What is unusual about a report: its license is not active, or an operator let it pass although it is out of turn. */
export const MARKS = ["suspended", "expired", "revoked", "new_journal", "clock_ahead"] as const;

/** What an operator lets pass. The actor must have a reason. */
export interface Allowed {
  /** The report begins another journal of its machine, whatever its number. */
  readonly newJournal?: boolean | undefined;
  /** The clock of the machine is ahead. */
  readonly clockAhead?: boolean | undefined;
}

/** From whom a report is. */
export interface Origin {
  readonly customer: { readonly email: string; readonly organization: string };
  /** Null for a machine that holds no place and never held one: then only its hash names it. */
  readonly machineUuid: string | null;
}

/** A report that was imported before. */
export interface KnownReport {
  readonly importedAt: Date;
  readonly months: readonly ChangedMonth[];
  readonly marks: readonly string[];
}

/** The journal of a machine, as far as its reports were imported. */
export interface OpenJournal {
  readonly uuid: string;
  readonly journal: string;
  readonly number: number;
  readonly digest: string;
  readonly reportedAt: Date;
}

export interface Standing extends Origin {
  readonly known: KnownReport | null;
  /** Null before the first report of the machine. */
  readonly open: OpenJournal | null;
  /** The limit that each month of the license has now; null means unlimited. */
  readonly limit: number | null;
  readonly marks: readonly string[];
  /** By the first day of the month; months without use are left out. */
  readonly used: ReadonlyMap<string, MonthCounts>;
}

const WHAT = "import report";

/** Returns the marks of the license of the row `l`, as SQL. */
export function marksOf(sql: Sql, now: Date): Fragment {
  return sql`
    array_remove(array[
      case when not exists (select from keys k where k.license_id = l.id and k.state = 'active')
             and exists (select from keys k where k.license_id = l.id and k.state = 'suspended') then 'suspended' end,
      case when l.expires_at <= ${now}::timestamptz then 'expired' end,
      case when not exists (select from keys k where k.license_id = l.id and k.state <> 'revoked') then 'revoked' end
    ], null)`;
}

/** Reads where the machine of a report stands. Refuses an unknown license. */
export async function findStanding(
  database: Database,
  { licenseUuid, machine, digest, months }: UsageReport,
  now: Date,
): Promise<Standing | Refusal> {
  const first = months[0]?.firstDay ?? null;
  const last = months.at(-1)?.firstDay ?? null;
  const [row] = await database.read<Row>(
    (sql) => sql`
      select ${effectiveLimit(sql)} as "limit", to_json(${marksOf(sql, now)}) as marks,
             (select json_build_object('importedAt', floor(extract(epoch from imported_at) * 1000), 'months', months,
                                       'marks', marks)
                from usage_reports where digest = decode(${digest}, 'hex')) as known,
             (select json_build_object('uuid', id, 'journal', encode(journal, 'hex'), 'number', last_number,
                                       'digest', encode(last_digest, 'hex'),
                                       'reportedAt', floor(extract(epoch from reported_at) * 1000))
                from usage_journals
               where license_id = l.id and machine = decode(${machine}, 'hex') and ended_at is null) as open,
             (select coalesce(json_agg(json_build_array(to_char(month, 'YYYY-MM-DD'), used, over)), '[]')
                from usage where license_id = l.id and month between ${first}::date and ${last}::date) as used,
             json_build_object('email', a.email, 'organization', a.organization) as customer,
             (select id from machines where license_id = l.id and fingerprint = decode(${machine}, 'hex')) as "machineUuid"
        from licenses l join accounts a on a.id = l.account_id where l.id = ${licenseUuid}::uuid`,
  );
  if (row === undefined) return refuseUnknownLicense(WHAT, licenseUuid);
  const { known, open, used, ...rest } = row;
  return {
    ...rest,
    known: known && { ...known, importedAt: new Date(known.importedAt) },
    open: open && { ...open, reportedAt: new Date(open.reportedAt) },
    used: new Map(used.map(([month, units, over]) => [month, { used: units, over }])),
  };
}

/** Times are Unix milliseconds. */
interface Row extends Origin, Pick<Standing, "limit" | "marks"> {
  readonly known: (Omit<KnownReport, "importedAt"> & { readonly importedAt: number }) | null;
  readonly open: (Omit<OpenJournal, "reportedAt"> & { readonly reportedAt: number }) | null;
  readonly used: readonly (readonly [month: string, used: number, over: number])[];
}

/** Names the customer of a report. */
export function nameCustomer({ customer: { organization, email } }: Origin): string {
  return organization || email;
}

/** Names the license and the machine of a report: `lic_… on mch_…`; an unknown machine by the beginning of its hash. */
export function nameMachine({ licenseUuid, machine }: UsageReport, { machineUuid }: Origin): string {
  const name = machineUuid === null ? `machine ${machine.slice(0, 8)}…` : toId("mch", machineUuid);
  return `${toId("lic", licenseUuid)} on ${name}`;
}

export interface Turn {
  readonly now: Date;
  readonly allowed: Allowed;
  /** Whether the actor has a reason. */
  readonly hasReason: boolean;
  /** The numbers of reports of the same journal that came together with this one, before it, and were refused. */
  readonly refused?: readonly number[] | undefined;
}

/**
 * Returns why a report is not the next one of its machine; undefined if it is, or if an operator lets it pass. What an operator
 * lets pass needs a reason.
 */
export function refuseOutOfTurn(
  report: UsageReport,
  standing: Pick<Standing, "open"> & Origin,
  { now, allowed, hasReason, refused = [] }: Turn,
): Refusal | undefined {
  const { journal, number, previous, madeAt } = report;
  const { open } = standing;
  const cannot = (why: string, name?: "begin_journal" | "allow_clock") =>
    refuse(
      "CONFLICT",
      `Cannot ${WHAT} ${number} of ${nameCustomer(standing)} (${nameMachine(report, standing)}): ${why}`,
      name && { remedy: { name } },
    );
  if ((allowed.newJournal || allowed.clockAhead) && !hasReason) return NEEDS_REASON;
  if (isAhead(report, now) && !allowed.clockAhead)
    return cannot(
      `it was made at ${toTimestamp(madeAt)}, which is to come: the clock of the machine is ahead`,
      "allow_clock",
    );
  if (allowed.newJournal) return undefined;
  const next = (open?.number ?? 0) + 1;
  const lacks = () => {
    const { names, first, isOne } = findMissing({ from: next, to: number - 1, refused });
    if (names === "") return cannot(`report ${number - 1} of this machine was refused: import it first`);
    return cannot(
      isOne
        ? `report ${names} of this machine is missing; import it first: the machine writes it again with \`report-again ${first} FILE\``
        : `reports ${names} of this machine are missing; import them first: the machine writes each again, as with \`report-again ${first} FILE\``,
    );
  };
  if (open === null) return number === 1 ? undefined : lacks();
  const fork = (why: string) => cannot(why, "begin_journal");
  const at = toTimestamp(open.reportedAt);
  if (journal !== open.journal)
    return fork(
      `it is of another journal than the reports of this machine until now, of which the last one, ${open.number}, was imported at ${at}`,
    );
  if (number < next)
    return fork(
      `report ${open.number} of this machine was imported at ${at}, and this one is none of those that were imported`,
    );
  if (number > next) return lacks();
  return previous === open.digest
    ? undefined
    : fork(`it does not follow the report ${open.number} that was imported at ${at}, but another one`);
}

/** Tells whether a report was made at a time that is to come. Clocks differ, and so do the days of places. */
function isAhead({ madeAt }: UsageReport, now: Date): boolean {
  return madeAt.getTime() > now.getTime() + DAY_MS;
}

/** Returns the marks that a report gets because an operator let it pass. */
export function marksOfAllowed(report: UsageReport, now: Date, { newJournal }: Allowed): string[] {
  return [...(newJournal ? ["new_journal"] : []), ...(isAhead(report, now) ? ["clock_ahead"] : [])];
}

const NEEDS_REASON = refuse(
  "INVALID_REQUEST",
  `Cannot ${WHAT}: another journal, or a clock that is ahead, needs a reason`,
  {
    fields: [
      {
        field: "reason",
        error: "Another journal, or a clock that is ahead, needs a reason",
        hint: "It is needed for another journal, and for a clock that is ahead",
      },
    ],
  },
);

/**
 * Names the reports between two numbers, without those that were refused together with this one, and the first of them. The names
 * are empty if all were.
 */
function findMissing({
  from,
  to,
  refused,
}: {
  readonly from: number;
  readonly to: number;
  readonly refused: readonly number[];
}) {
  const spans: (readonly [first: number, last: number])[] = [];
  let first = from;
  const between = refused.filter((number) => number >= from && number <= to);
  for (const number of [...between.toSorted((one, other) => one - other), to + 1]) {
    if (number > first) spans.push([first, number - 1]);
    first = number + 1;
  }
  const names = spans.map(([one, last]) => (one === last ? `${one}` : `${one} to ${last}`)).join(", ");
  const [[earliest, last] = [from, to], ...more] = spans;
  return { names, first: earliest, isOne: more.length === 0 && earliest === last };
}

/** Returns what a report changes in each month under a limit; null means unlimited. */
export function planMonths(
  { months }: UsageReport,
  { limit, used }: Pick<Standing, "limit" | "used">,
): ChangedMonth[] {
  return months.map(({ firstDay, units }) => {
    const before = used.get(firstDay) ?? { used: 0, over: 0 };
    const granted = Math.min(units, Math.max((limit ?? Number.MAX_SAFE_INTEGER) - before.used, 0));
    const over = units - granted;
    const after = { used: before.used + granted, over: before.over + over };
    return { month: firstDay.slice(0, 7), units, over, before, after };
  });
}

/** Returns the month of a first day. */
export function monthOfFirstDay(firstDay: string): Month {
  return monthOf(Date.parse(`${firstDay}T00:00:00Z`));
}

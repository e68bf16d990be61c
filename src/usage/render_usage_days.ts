import { DAY, DAY_MS, toDay, toTimestamp } from "../base/calendar.ts";
import { condition } from "../base/condition.ts";
import type { UsageDays } from "./usage_days.ts";

/** The names by which the use of a day is divided. */
export const USAGE_NAMES = ["tier", "mode"] as const;

/** What a request for the use by day asks for, at every door. */
export const USAGE_DAYS_CONDITIONS = {
  from: condition("the first day, such as 2026-11-20; by default 29 days before the last day", DAY, {
    as: "day",
  }),
  to: condition("the last day; by default today, UTC", DAY, { as: "day" }),
  by: condition("how the use of a day is divided", USAGE_NAMES, { as: "what" }),
} as const;

type UsageName = (typeof USAGE_NAMES)[number];

/** Days as `2026-11-20`, both included. */
interface Period {
  readonly from: string;
  readonly to: string;
  /** Undefined for one sum a day. */
  readonly by?: UsageName | undefined;
}

/** The days without `from`. */
const DAYS = 30;
/** The most days of a period. */
const MAX_USAGE_DAYS = 400;
/** The end of a refusal, after the names of both days. */
export const MUST_BE_NEAR = `must be at most ${MAX_USAGE_DAYS} days apart`;

/** Fills in the period: by default the thirty days until today. Undefined for more than 400 days. */
export function completePeriod(
  { from, to, by }: { readonly [Field in keyof Period]?: Period[Field] | undefined },
  now: Date,
): Period | undefined {
  const last = to ?? toDay(now);
  const lastMs = Date.parse(last);
  // A date before the year 1000 would not be one for PostgreSQL.
  const first = from ?? toDay(new Date(Math.max(lastMs - (DAYS - 1) * DAY_MS, FIRST_MS)));
  return lastMs - Date.parse(first) >= MAX_USAGE_DAYS * DAY_MS ? undefined : { from: first, to: last, by };
}

const FIRST_MS = Date.parse("1000-01-01");

/**
 * Renders the use of a period as JSON, for `--json` of the command and for the API. Without `by`, each day that was
 * counted has a row; with it, each day and name with use.
 */
export function renderUsageDays(period: Period, use: UsageDays | undefined) {
  const { from, to, by } = period;
  const { asOf, exactUntil = null, filledFrom = null, days = [], imported = [] } = use ?? {};
  const nameOf = (row: { readonly tier: string; readonly mode: string }) => (by === undefined ? "" : row[by]);
  const sums = new Map(countedDays(period, use).map((day) => [`${day} `, 0]));
  for (const row of days) {
    const place = `${row.day} ${nameOf(row)}`;
    sums.set(place, (sums.get(place) ?? 0) + row.used);
  }
  const importedSums = new Map<string, number>();
  for (const row of imported) {
    const place = `${row.month} ${nameOf(row)}`;
    importedSums.set(place, (importedSums.get(place) ?? 0) + row.used);
  }
  const rows = <Field extends "day" | "month">(field: Field, of: ReadonlyMap<string, number>) =>
    [...of].map(([place, used]) => {
      const [at = "", name] = place.split(" ");
      return { [field]: at, ...(by !== undefined && { [by]: name }), used } as Record<Field, string> &
        Partial<Record<UsageName, string>> & { readonly used: number };
    });
  return {
    from,
    to,
    by: by ?? null,
    as_of: asOf === undefined ? null : toTimestamp(asOf),
    exact_until: exactUntil,
    filled_from: filledFrom,
    data: rows("day", sums),
    imported: rows("month", importedSums),
  };
}

/** Returns the days of the period that are counted, for one sum a day. */
function countedDays({ from, to, by }: Period, use: UsageDays | undefined): string[] {
  if (by !== undefined || use === undefined) return [];
  const first = use.filledFrom !== null && use.filledFrom > from ? use.filledFrom : from;
  const today = toDay(use.asOf);
  const last = today < to ? today : to;
  const days: string[] = [];
  for (let ms = Date.parse(first); ms <= Date.parse(last); ms += DAY_MS) days.push(toDay(new Date(ms)));
  return days;
}

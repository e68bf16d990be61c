/** Instants and months in the contract's form: UTC, in whole seconds; and spans of time as operators write them. */

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

/** Renders an instant as `2026-12-01T00:00:00Z`. */
export function toTimestamp(at: Date): string {
  return `${at.toISOString().slice(0, 19)}Z`;
}

/** The expiry of a license that never ends. It is a date, because clients parse it as a date. */
export const NEVER_EXPIRES = new Date("9999-12-31T23:59:59Z");

const TIMESTAMP = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/;

const FIRST_MS = Date.parse("1000-01-01T00:00:00Z");
const LAST_MS = Date.parse("9999-12-31T23:59:59.999Z");

/**
 * Parses an ISO 8601 instant with its zone, or a date alone (its first second, UTC). Undefined for any other text, also
 * for a day that does not exist, and for an instant that is not in the years 1000 to 9999, UTC.
 */
export function parseTimestamp(text: string): Date | undefined {
  if (!TIMESTAMP.test(text)) return undefined;
  const at = new Date(text);
  // PostgreSQL has no year 0, Date.UTC reads the years 0 to 99 as 1900 to 1999, and a zone can move an instant into
  // the year 10000.
  if (!(at.getTime() >= FIRST_MS && at.getTime() <= LAST_MS)) return undefined;
  // Date turns February 30 into March: the day of the month must not change.
  const day = new Date(`${text.slice(0, 10)}T00:00:00Z`);
  return day.toISOString().slice(0, 10) === text.slice(0, 10) ? at : undefined;
}

/** Parses whole days or hours, `7d` or `12h`, into milliseconds; undefined for any other text and above ten years. */
export function parseSpan(text: string): number | undefined {
  const match = /^(\d{1,5})([dh])$/.exec(text);
  const ms = Number(match?.[1]) * (match?.[2] === "d" ? DAY_MS : HOUR_MS);
  return ms <= 3_650 * DAY_MS ? ms : undefined;
}

/** A calendar month, UTC: the period of a quota. */
export interface Month {
  /** Months since year 0; later months have greater numbers. */
  readonly index: number;
  /** `2026-11-01`, as a `date` in SQL. */
  readonly firstDay: string;
  /** The start of the next month, as the contract's `resets_at`. */
  readonly resetsAt: string;
  readonly beginsAtMs: number;
  readonly endsAtMs: number;
}

/** Returns the month of an instant. */
export function monthOf(atMs: number): Month {
  const current = latest;
  if (current !== undefined && atMs >= current.beginsAtMs && atMs < current.endsAtMs) return current;
  const at = new Date(atMs);
  const index = at.getUTCFullYear() * 12 + at.getUTCMonth();
  latest = toMonth(index);
  return latest;
}

/** The last result: nearly every request asks for the same month. */
let latest: Month | undefined;

/** Returns the month with that index: `toMonth(month.index + 1)` is the next month. */
export function toMonth(index: number): Month {
  const begins = new Date(Date.UTC(Math.floor(index / 12), index % 12, 1));
  const ends = new Date(Date.UTC(Math.floor((index + 1) / 12), (index + 1) % 12, 1));
  return {
    index,
    firstDay: begins.toISOString().slice(0, 10),
    resetsAt: toTimestamp(ends),
    beginsAtMs: begins.getTime(),
    endsAtMs: ends.getTime(),
  };
}

/** Instants and months in the contract's form: UTC, in whole seconds; and spans of time as operators write them. */

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

/** Renders an instant as `2026-12-01T00:00:00Z`. */
export function toTimestamp(at: Date): string {
  return `${at.toISOString().slice(0, 19)}Z`;
}

/** The expiry of a license that never ends. It is a date, because clients parse it as a date. */
export const NEVER_EXPIRES = new Date("9999-12-31T23:59:59Z");

const DAY = "[1-9][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])";
const TIME = "(([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\\.[0-9]+)?)?|24:00(:00(\\.0+)?)?)";
const ZONE = "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";

/** The form of a timestamp: an ISO 8601 instant with its zone, or a date alone. */
export const TIMESTAMP = new RegExp(`^${DAY}(T${TIME}${ZONE})?$`);

const FIRST_MS = Date.parse("1000-01-01T00:00:00Z");
const LAST_MS = Date.parse("9999-12-31T23:59:59.999Z");

/**
 * Parses a timestamp; a date alone means its first second, UTC. Undefined for a text without the form
 * {@linkcode TIMESTAMP}, for a day that its month does not have, and for an instant that a zone moves out of the years
 * 1000 to 9999, UTC.
 */
export function parseTimestamp(text: string): Date | undefined {
  if (!TIMESTAMP.test(text)) return undefined;
  const at = new Date(text);
  if (!(at.getTime() >= FIRST_MS && at.getTime() <= LAST_MS)) return undefined;
  // Date turns February 30 into March: the day of the month must not change.
  const day = new Date(`${text.slice(0, 10)}T00:00:00Z`);
  return toDay(day) === text.slice(0, 10) ? at : undefined;
}

/** Returns the day of an instant, UTC: `2026-11-20`. */
export function toDay(at: Date): string {
  return at.toISOString().slice(0, 10);
}

/** The form of a span: whole days or hours in at most five digits, and at most ten years: 3,650 days or 87,600 hours. */
export const SPAN =
  /^(0?([0-2]?[0-9]{1,3}|3[0-5][0-9]{2}|36[0-4][0-9]|3650)d|([0-7]?[0-9]{1,4}|8[0-6][0-9]{3}|87[0-5][0-9]{2}|87600)h)$/;

/** Parses a span, `7d` or `12h`, into milliseconds; undefined for a text without the form {@linkcode SPAN}. */
export function parseSpan(text: string): number | undefined {
  if (!SPAN.test(text)) return undefined;
  return Number(text.slice(0, -1)) * (text.endsWith("d") ? DAY_MS : HOUR_MS);
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

/**
 * Returns the month of an instant.
 *
 * @example
 * ```ts
 * const { firstDay, resetsAt } = monthOf(Date.parse("2026-11-20T12:00:00Z"));
 * [firstDay, resetsAt]; // ["2026-11-01", "2026-12-01T00:00:00Z"]
 * ```
 */
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
    firstDay: toDay(begins),
    resetsAt: toTimestamp(ends),
    beginsAtMs: begins.getTime(),
    endsAtMs: ends.getTime(),
  };
}

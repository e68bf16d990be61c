/** Instants and months in the contract's form: UTC, in whole seconds; and spans of time as operators write them. */

import type { Rule } from "./rule.ts";

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

/** Renders an instant as `2026-12-01T00:00:00Z`. */
export function toTimestamp(at: Date): string {
  return `${at.toISOString().slice(0, 19)}Z`;
}

/** Renders an instant for people, to the minute: `2026-12-01 00:00 UTC`. */
export function toMinute(at: Date): string {
  return `${at.toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

/** The expiry of a license that never ends. It is a date, because clients parse it as a date. */
export const NEVER_EXPIRES = new Date("9999-12-31T23:59:59Z");

const DAY_FORM = "[1-9][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])";
const TIME = "(([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\\.[0-9]+)?)?|24:00(:00(\\.0+)?)?)";
const ZONE = "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";

const TIMESTAMP_FORM = new RegExp(`^${DAY_FORM}(T${TIME}${ZONE})?$`);

/** The rule for a bound of a list or a report: an ISO 8601 instant with its zone, or a day alone, which is its first second. */
export const TIMESTAMP = {
  expects: "an ISO 8601 timestamp such as 2027-01-31T00:00:00Z",
  keywords: { pattern: TIMESTAMP_FORM.source, examples: ["2027-01-31T00:00:00Z"] },
  parse: parseTimestamp,
} as const satisfies Rule<Date>;

/** The rule for the time of something that happened: an ISO 8601 instant with its zone, to the millisecond. */
export const INSTANT = {
  expects: "an ISO 8601 time with its zone, such as 2027-01-31T12:00:00.250Z",
  keywords: { format: "date-time", examples: ["2027-01-31T12:00:00.250Z"] },
  parse: (text) => (DAY.parse(text) === undefined ? parseTimestamp(text) : undefined),
} as const satisfies Rule<Date>;

/** What a day alone means as a bound of a list or a report, for every document and help. */
export const DAY_AS_BOUND = "a day alone is its beginning, UTC";

/** What a day alone means as the end of something, for every document and help. */
export const DAY_AS_END = "a day alone is its last second, UTC";

/** The rule for the end of something, such as a license or a token: an instant, or the last day. */
export const END = {
  expects: "a day such as 2027-01-31, or an ISO 8601 timestamp such as 2027-01-31T12:00:00Z",
  keywords: {
    pattern: TIMESTAMP_FORM.source,
    description: `An ISO 8601 timestamp; ${DAY_AS_END}`,
    examples: ["2027-01-31", "2027-01-31T12:00:00Z"],
  },
  parse: parseEnd,
} as const satisfies Rule<Date>;

/** Says an end for people: the day alone if it is the last second of it. `until` is what {@linkcode toTimestamp} returns. */
export function describeEnd(until: string): string {
  return until.replace(/T23:59:59Z$/, "");
}

/** The rule for a day, UTC, which stays a text. */
export const DAY: Rule<string> = {
  expects: "a day such as 2026-11-20",
  keywords: { format: "date" },
  parse: (text) => (text.length === 10 && parseTimestamp(text) !== undefined ? text : undefined),
};

const FIRST_MS = Date.parse("1000-01-01T00:00:00Z");
const LAST_MS = Date.parse("9999-12-31T23:59:59.999Z");

/**
 * Parses a timestamp; a date alone means its first second, UTC. Undefined for a text without the form
 * of {@linkcode TIMESTAMP}, for a day that its month does not have, and for an instant that a zone moves out of the years
 * 1000 to 9999, UTC.
 */
export function parseTimestamp(text: string): Date | undefined {
  if (!TIMESTAMP_FORM.test(text)) return undefined;
  const at = new Date(text);
  if (!(at.getTime() >= FIRST_MS && at.getTime() <= LAST_MS)) return undefined;
  // Date turns February 30 into March: the day of the month must not change.
  const day = new Date(`${text.slice(0, 10)}T00:00:00Z`);
  return toDay(day) === text.slice(0, 10) ? at : undefined;
}

/**
 * Parses the end of something, as {@linkcode parseTimestamp} does, but a day alone is its last second, UTC: who has paid
 * until a day, or writes down today, means the whole day.
 */
export function parseEnd(text: string): Date | undefined {
  return parseTimestamp(DAY.parse(text) === undefined ? text : `${text}${LAST_SECOND}`);
}

/** Returns the last second of the day of an instant, UTC. */
export function endOfDay(at: Date): Date {
  return new Date(`${toDay(at)}${LAST_SECOND}`);
}

const LAST_SECOND = "T23:59:59Z";

/** Returns the day of an instant, UTC: `2026-11-20`. */
export function toDay(at: Date): string {
  return at.toISOString().slice(0, 10);
}

/** Returns the time of the day of an instant, UTC: `12:05`. */
export function toTimeOfDay(at: Date): string {
  return at.toISOString().slice(11, 16);
}

/** Why an expiry is refused that has passed, in every room. */
export const PAST_EXPIRY = "the expiry lies in the past";

/** The most days of a span: ten years. */
export const MOST_SPAN_DAYS = 3_650;

/** Tells whether an end is so late that nobody waits for it: never, or more than ten years ahead. */
export function isForEver(end: Date, now: Date): boolean {
  return end.getTime() - now.getTime() > MOST_SPAN_DAYS * DAY_MS;
}

/** The form of a span: whole days or hours in at most five digits, and at most ten years: 3,650 days or 87,600 hours. */
const SPAN_FORM =
  /^(0?([0-2]?[0-9]{1,3}|3[0-5][0-9]{2}|36[0-4][0-9]|3650)d|([0-7]?[0-9]{1,4}|8[0-6][0-9]{3}|87[0-5][0-9]{2}|87600)h)$/;

/** The rule for a span, `7d` or `12h`, which means milliseconds. */
export const SPAN: Rule<number> = {
  expects: "whole days or hours, such as 7d or 12h, at most ten years",
  keywords: { pattern: SPAN_FORM.source },
  parse(text) {
    if (!SPAN_FORM.test(text)) return undefined;
    return Number(text.slice(0, -1)) * (text.endsWith("d") ? DAY_MS : HOUR_MS);
  },
};

/** A calendar month, UTC: the period of a quota. */
export type Month = Readonly<ReturnType<typeof toMonth>>;

/** The rule for a calendar month. */
export const MONTH: Rule<Month> = {
  expects: "a month such as 2026-11",
  keywords: {
    type: "string",
    pattern: "^[0-9]{4}-(0[1-9]|1[0-2])$",
    description: "A month such as 2026-11",
  },
  parse(text) {
    const first = /^\d{4}-\d\d$/.test(text) ? parseTimestamp(`${text}-01`) : undefined;
    return first && monthOf(first.getTime());
  },
};

/** Returns a month as addresses and people write it: `2026-11`. */
export function toMonthText({ firstDay }: Month): string {
  return firstDay.slice(0, 7);
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

/** Returns every day of a month. */
export function daysOf({ firstDay, beginsAtMs, endsAtMs }: Month): string[] {
  const length = Math.round((endsAtMs - beginsAtMs) / DAY_MS);
  return Array.from({ length }, (_, day) => `${firstDay.slice(0, 8)}${String(day + 1).padStart(2, "0")}`);
}

/** Returns the month with that index: `toMonth(month.index + 1)` is the next month. */
export function toMonth(index: number) {
  const begins = new Date(Date.UTC(Math.floor(index / 12), index % 12, 1));
  const ends = new Date(Date.UTC(Math.floor((index + 1) / 12), (index + 1) % 12, 1));
  return {
    /** Months since year 0; later months have greater numbers. */
    index,
    /** `2026-11-01`, as a `date` in SQL. */
    firstDay: toDay(begins),
    /** The start of the next month, as the contract's `resets_at`. */
    resetsAt: toTimestamp(ends),
    beginsAtMs: begins.getTime(),
    endsAtMs: ends.getTime(),
  };
}

/**
 * Terms that begin with the first use of a license. Until then the license ends so many days after its latest start, which
 * is when the term begins without a use.
 */
import * as v from "valibot";
import { count, fieldsOf, timestamp } from "../base/answer_fields.ts";
import { DAY_MS, NEVER_EXPIRES, toDay, toTimestamp } from "../base/calendar.ts";
import { type Refusal, refuse, type WrongField } from "../base/refusal.ts";
import { counted } from "../base/render_count.ts";
import { wholeNumber } from "../base/rule.ts";
import type { Fragment, Sql } from "../database/mod.ts";

/** The term of a license; all null for a license with an end that is known. */
export interface Term {
  readonly termDays: number | null;
  readonly latestStart: Date | null;
  /** When it began; null before the first use. */
  readonly startedAt: Date | null;
}

/** The term of a license that is made. */
export interface NewTerm {
  readonly termDays: number;
  readonly latestStart: Date;
}

/** The rule for the days of a term. */
export const TERM_DAYS = wholeNumber(1, 3_650);

const field = fieldsOf<Term>();

/** The term, for every answer to operators that has the expiry of the license. */
export const TERM_FIELDS = {
  starts_on_first_use: field(
    v.boolean(),
    ({ termDays }) => termDays !== null,
    "Whether the license ends a number of days after its first use",
  ),
  term_days: field(
    v.nullable(count(1)),
    ({ termDays }) => termDays,
    "How many days after its first use the license ends; null: it does not start on its first use",
  ),
  latest_start: field(
    v.nullable(timestamp()),
    ({ latestStart }) => latestStart && toTimestamp(latestStart),
    "The days count from then at the latest. Before the first use, the expiry is so many days later",
  ),
  started_at: field(
    v.nullable(timestamp()),
    ({ startedAt }) => startedAt && toTimestamp(startedAt),
    "The first use, from which the days count; null before it",
  ),
} as const;

/** Returns the term of anything that has one, without the rest. */
export function termOf({ termDays, latestStart, startedAt }: Term): Term {
  return { termDays, latestStart, startedAt };
}

/** Tells whether a license was not used yet, whose term begins with its first use. */
export function isUnstarted({ termDays, startedAt }: Term): boolean {
  return termDays !== null && startedAt === null;
}

/** Tells whether the days of a license do not count yet, because it waits for its first use. */
export function isWaiting(term: Term, now: Date): boolean {
  return isUnstarted(term) && term.latestStart !== null && term.latestStart > now;
}

/** Returns when a license would end whose term began now; undefined if it has no term, or that has begun with a use. */
export function endIfStarted(term: Term, now: Date): Date | undefined {
  const { termDays, latestStart } = term;
  if (termDays === null || latestStart === null || !isUnstarted(term)) return undefined;
  const start = new Date(Math.min(now.getTime() - (now.getTime() % 1_000), latestStart.getTime()));
  return endOf(start, termDays);
}

/**
 * Says a term in words: `30 days from its first use, at the latest from 2027-01-31`. With `now` it says whether the days count
 * already without a use.
 */
export function describeTerm(term: Term, now?: Date): string {
  const { termDays, latestStart, startedAt } = term;
  if (termDays === null || latestStart === null) return "none";
  const days = `${counted(termDays, "day")} from `;
  if (startedAt !== null) return `${days}${toTimestamp(startedAt)}`;
  if (now && !isWaiting(term, now)) return `${days}${toTimestamp(latestStart)}, without a use`;
  return `${days}its first use, at the latest from ${toDay(latestStart)}`;
}

/** Returns the term after a change. Another expiry that is given before the first use takes the place of the term. */
export function changedTerm(of: Term & { readonly expiresAt: Date }, expiresAt: Date = of.expiresAt): Term {
  if (expiresAt.getTime() === of.expiresAt.getTime() || !isUnstarted(of)) return termOf(of);
  return { termDays: null, latestStart: null, startedAt: null };
}

/** The fields of a request that decide the end of a new license. */
interface RequestedEnd {
  readonly expiresAt?: Date | undefined;
  readonly startsOnFirstUse?: boolean | undefined;
  readonly termDays?: number | undefined;
  readonly latestStart?: Date | undefined;
}

/** Returns these fields from the body of a request or a line of an import, which have null for what is not given. */
export function requestedEndOf(body: {
  readonly expires_at?: Date | null | undefined;
  readonly starts_on_first_use?: boolean | null | undefined;
  readonly term_days?: number | null | undefined;
  readonly latest_start?: Date | null | undefined;
}): RequestedEnd {
  return {
    expiresAt: body.expires_at ?? undefined,
    startsOnFirstUse: body.starts_on_first_use ?? undefined,
    termDays: body.term_days ?? undefined,
    latestStart: body.latest_start ?? undefined,
  };
}

/** The end of a new license, and its term if it starts on its first use. */
export interface NewEnd {
  readonly expiresAt: Date;
  readonly term?: NewTerm;
}

/** Says which field of a new license contradicts the others about its end, and why; undefined if none does. */
export function findWrongEnd({
  expiresAt,
  startsOnFirstUse = false,
  termDays,
  latestStart,
}: RequestedEnd): WrongField | undefined {
  if (!startsOnFirstUse)
    return termDays === undefined && latestStart === undefined
      ? undefined
      : { field: "starts_on_first_use", error: START_NEEDED };
  if (termDays === undefined) return { field: "term_days", error: DAYS_NEEDED };
  if (expiresAt !== undefined) return { field: "expires_at", error: END_FOLLOWS };
  return latestStart !== undefined && endOf(latestStart, termDays) >= NEVER_EXPIRES
    ? { field: "latest_start", error: "the term would end after the year 9999" }
    : undefined;
}

const START_NEEDED = "term days and a latest start are only for a license that starts on its first use";
const DAYS_NEEDED = "a license that starts on its first use needs term days";
const END_FOLLOWS =
  "a license that starts on its first use has no expiry of its own: it follows from the term";

function endOf(start: Date, termDays: number): Date {
  return new Date(start.getTime() + termDays * DAY_MS);
}

/** Returns the end of a new license, and its term if it starts on its first use. `usual` is the usual end and latest start. */
export function endOfNew(
  { expiresAt, startsOnFirstUse = false, termDays = 0, latestStart }: RequestedEnd,
  usual: Date,
): NewEnd {
  if (!startsOnFirstUse) return { expiresAt: expiresAt ?? usual };
  const term = { termDays, latestStart: latestStart ?? usual };
  return { expiresAt: endOf(term.latestStart, termDays), term };
}

/**
 * Returns what {@linkcode endOfNew} returns. Refuses fields that contradict each other, and a latest start that has passed.
 */
export function planEnd(
  requested: RequestedEnd,
  { what, now, usual }: { readonly what: string; readonly now: Date; readonly usual: Date },
): NewEnd | Refusal {
  const { latestStart } = requested;
  const wrong =
    findWrongEnd(requested) ??
    (latestStart !== undefined && latestStart <= now
      ? { field: "latest_start", error: "the latest start lies in the past" }
      : undefined);
  if (wrong === undefined) return endOfNew(requested, usual);
  return refuse("INVALID_REQUEST", `Cannot ${what}: ${wrong.error}`, { fields: [wrong] });
}

/** Returns SQL that adds the term of a license to a `jsonb` of the audit log, if there is one. */
export function withTerm(sql: Sql, row: Fragment): Fragment {
  return sql`
    || jsonb_strip_nulls(jsonb_build_object('term_days', ${row}.term_days, 'latest_start', ${row}.latest_start,
                                            'started_at', ${row}.started_at))`;
}

/** Returns the columns of the license `l` under the names of {@linkcode Term}. */
export function selectTerm(sql: Sql): Fragment {
  return sql`l.term_days as "termDays", l.latest_start as "latestStart", l.started_at as "startedAt"`;
}

/** The end of updates of a license: versions of models that are registered later are not for it. Earlier ones stay. */
import * as v from "valibot";
import { fieldsOf, timestamp } from "../base/answer_fields.ts";
import { toDay, toTimestamp } from "../base/calendar.ts";
import type { Fragment, Sql } from "../database/mod.ts";

export interface Updates {
  /** The last second in which a version can be registered that the license may load; null: every version. */
  readonly updatesUntil: Date | null;
}

const field = fieldsOf<Updates>();

/** The end of updates, for every answer to operators that has the expiry of the license. */
export const UPDATES_FIELDS = {
  updates_until: field(
    v.nullable(timestamp()),
    ({ updatesUntil }) => updatesUntil && toTimestamp(updatesUntil),
    "Versions of models that are registered later are not for the license; null: every version is",
  ),
} as const;

/** Says the end of updates in words: its day, or `none`. */
export function describeUpdates({ updatesUntil }: Updates): string {
  return updatesUntil === null ? "none" : toDay(updatesUntil);
}

/**
 * Tells whether a version is for a license by the instant at which it was registered. The whole last second counts: an end
 * has no fractions.
 */
export function isWithinUpdates(registeredMs: number, untilMs: number): boolean {
  return Math.floor(registeredMs / 1_000) <= Math.floor(untilMs / 1_000);
}

/** Returns the same as SQL; an end that is null is no end. */
export function isWithinUpdatesSql(sql: Sql, registered: Fragment, until: Fragment): Fragment {
  return sql`date_trunc('second', ${registered}) <= coalesce(${until}, 'infinity')`;
}

/** Returns SQL that adds the end of updates of a license to a `jsonb` of the audit log, if there is one. */
export function withUpdates(sql: Sql, row: Fragment): Fragment {
  return sql`|| jsonb_strip_nulls(jsonb_build_object('updates_until', ${row}.updates_until))`;
}

import type { Fragment, Sql } from "../database/mod.ts";

/** A session times out after this time without a request. */
const IDLE_MINUTES = 30;
/** A session times out this long after its log-in, also if requests arrive. */
const SESSION_HOURS = 12;

/** Returns the condition that the session `s` has not timed out. */
export function isLiveSession(sql: Sql, now: Date): Fragment {
  return sql`(s.last_seen_at > ${now}::timestamptz - ${IDLE_MINUTES} * interval '1 minute'
              and s.created_at > ${now}::timestamptz - ${SESSION_HOURS} * interval '1 hour')`;
}

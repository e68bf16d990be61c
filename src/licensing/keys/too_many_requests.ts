/**
 * Counts the requests of each key that sends too many, so that lists can say `173 of 240 in the last hour`, and unusual
 * hours name the keys with the most refusals.
 *
 * A key is watched from its first refusal for too many requests on, until an hour has passed without another one. There
 * is one count for each part of ten minutes, to which all processes add. A reader takes the parts that began in the last
 * hour. So it never shows a request that is older than an hour, and lacks the requests before the first of these parts
 * began, up to ten minutes of them. Parts are kept for 25 hours.
 */
import { HOUR_MS } from "../../base/calendar.ts";
import type { Clock } from "../../base/clock.ts";
import { createWaitingRows, type Database, type Fragment, type Sql } from "../../database/mod.ts";
import type { StoredList } from "./key_filter.ts";

/** The most keys that one process watches. A further key is watched only after one of them is forgotten. */
const MAX_WATCHED = 5_000;
const PART_MS = 600_000;
/** A day, and an hour more: the hour in which the last day began is counted whole. */
const KEPT_MS = 25 * HOUR_MS;

interface CountOfPart {
  readonly keyUuid: string;
  readonly beganAtMs: number;
  readonly requests: number;
  readonly refused: number;
}

export function createRequestWatch({
  database,
  clock,
}: {
  readonly database: Database;
  readonly clock: Clock;
}) {
  /** The last refusal of each key, by the monotonic clock. */
  const watched = new Map<string, number>();
  const rows = createWaitingRows<CountOfPart>({
    idOf: ({ keyUuid, beganAtMs }) => `${keyUuid} ${beganAtMs}`,
    merge: (one, { requests, refused }) => ({
      ...one,
      requests: one.requests + requests,
      refused: one.refused + refused,
    }),
    write: (counts) => addCounts(database, counts, clock.now()),
  });

  return {
    /** Counts a request; costs next to nothing while no key is watched. */
    note(uuid: string, isRefused: boolean): void {
      if (!isRefused && watched.size === 0) return;
      if (!watched.has(uuid) && (!isRefused || watched.size >= MAX_WATCHED)) return;
      if (isRefused) watched.set(uuid, clock.monotonicMs());
      const beganAtMs = Math.floor(clock.nowMs() / PART_MS) * PART_MS;
      rows.add({ keyUuid: uuid, beganAtMs, requests: 1, refused: isRefused ? 1 : 0 });
    },
    /** Writes the counts, and stops to watch keys that were not refused for an hour. */
    async flush(): Promise<void> {
      for (const [uuid, refusedMs] of watched)
        if (clock.monotonicMs() - refusedMs >= HOUR_MS) watched.delete(uuid);
      await rows.flush();
    },
  };
}

async function addCounts(database: Database, counts: readonly CountOfPart[], now: Date): Promise<void> {
  await database.query(
    (sql) => sql`
      with old as (
        delete from too_many_requests where began_at < ${new Date(now.getTime() - KEPT_MS)}::timestamptz
      )
      insert into too_many_requests as t (key_id, began_at, requests, refused)
      select "keyUuid", to_timestamp("beganAtMs" / 1000), requests, refused
        from jsonb_to_recordset(${JSON.stringify(counts)}::text::jsonb)
             as counted ("keyUuid" uuid, "beganAtMs" double precision, requests bigint, refused bigint)
       -- Every writer locks rows in this order, so two processes never wait for each other.
       order by 1, 2
      on conflict (key_id, began_at) do update
        set requests = t.requests + excluded.requests, refused = t.refused + excluded.refused`,
  );
}

/** Returns the condition, as SQL, that a row of `too_many_requests` is of the last hour. */
export function isOfLastHour(sql: Sql, now: Date): Fragment {
  return sql`began_at >= ${new Date(now.getTime() - HOUR_MS)}::timestamptz`;
}

/** Returns the keys that were refused for too many requests in the last hour. */
export function listTooMany(now: Date): StoredList {
  return {
    // Few keys send too many requests, so the estimate is none.
    keys: 0,
    select: (sql) => sql`
      select distinct key_id from too_many_requests where ${isOfLastHour(sql, now)} and refused > 0`,
  };
}

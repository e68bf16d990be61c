import type { Database } from "../database/mod.ts";

/** The requests of one key at one endpoint that wait for the same statement. */
export interface WindowRequests {
  readonly keyUuid: string;
  readonly endpoint: string;
  readonly limit: number;
  /** How many want to be counted; 0 only asks. */
  readonly wanted: number;
}

/** The window of a key afterwards. Seconds and milliseconds are since 1970, by the clock of the database. */
export interface Counted {
  readonly keyUuid: string;
  readonly endpoint: string;
  /** How many of the wanted requests were counted: as many as there was room for. */
  readonly granted: number;
  readonly total: number;
  readonly second: number;
  /** The first second with room; null if there is room now. */
  readonly roomSecond: number | null;
  readonly nowMs: number;
}

/** Requests to take back from the second in which they were counted. */
export interface TakenBack {
  readonly keyUuid: string;
  readonly endpoint: string;
  readonly second: number;
  readonly count: number;
}

/**
 * Counts the requests of distinct windows. The rows are locked in the order of their keys, so that two processes never
 * wait for each other.
 */
export async function countBatch(
  database: Database,
  asked: readonly WindowRequests[],
  deadlineMs: number,
): Promise<Counted[]> {
  return await database.query<Counted>(
    (sql) => sql`
      insert into shared_windows as w (key_id, endpoint, most, newest_second, counts, total, granted)
      select "keyUuid", asked.endpoint, first.most, first.newest_second, first.counts, first.total, first.granted
        from (select * from json_to_recordset(${JSON.stringify(asked)}::text::json)
                         as asked ("keyUuid" uuid, endpoint text, "limit" integer, wanted integer)
               order by "keyUuid", endpoint) asked
       cross join lateral count_requests(null, wanted, "limit") first
          on conflict (key_id, endpoint) do update
         set (most, newest_second, counts, total, granted) = (
               select next.most, next.newest_second, next.counts, next.total, next.granted
                 from count_requests(w, excluded.granted, excluded.most) next)
      returning key_id as "keyUuid", endpoint, granted, total, newest_second as second, room_second(w) as "roomSecond",
                floor(extract(epoch from clock_timestamp()) * 1000)::bigint as "nowMs"`,
    { deadlineMs },
  );
}

/** Takes requests back; those whose second has left the window stay as they are. */
export async function takeBackBatch(
  database: Database,
  taken: readonly TakenBack[],
  deadlineMs: number,
): Promise<void> {
  await database.query(
    (sql) => sql`
      with back as (
        select * from json_to_recordset(${JSON.stringify(taken)}::text::json)
                   as back ("keyUuid" uuid, endpoint text, second bigint, count integer)
      ),
      locked as (
        select key_id, endpoint from shared_windows
         where (key_id, endpoint) in (select "keyUuid", endpoint from back)
         order by key_id, endpoint for update
      )
      update shared_windows w
         set counts[back.second % 61 + 1] = counts[back.second % 61 + 1] - back.count,
             total = total - back.count
        from back
        join locked on locked.key_id = back."keyUuid" and locked.endpoint = back.endpoint
       where w.key_id = back."keyUuid" and w.endpoint = back.endpoint
         and newest_second - back.second between 0 and 60
         and counts[back.second % 61 + 1] >= back.count`,
    { deadlineMs },
  );
}

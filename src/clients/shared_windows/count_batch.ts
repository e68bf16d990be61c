import type { Database } from "../../database/mod.ts";

/** The requests of one key at one endpoint that wait for the same statement. */
export interface WindowRequests {
  readonly keyUuid: string;
  readonly endpoint: string;
  readonly limit: number;
  /** How many want to be counted; 0 only asks. */
  wanted: number;
  /** Whether all of the wanted are counted or none. */
  readonly isWhole: boolean;
  /** The second of each counted request to take back. A second that has left the window is ignored. */
  readonly takenBack: number[];
}

/** The window of a key afterwards. Seconds and milliseconds are since 1970, by the clock of the database. */
export interface Counted {
  readonly keyUuid: string;
  readonly endpoint: string;
  /** How many of the wanted requests were counted: as many as there was room for; of a whole, all or none. */
  readonly granted: number;
  readonly total: number;
  /** The second of the granted requests. */
  readonly second: number;
  /** The last second whose requests count; null if none count. */
  readonly lastSecond: number | null;
  /** The first second with room; null if there is room now. */
  readonly roomSecond: number | null;
  readonly nowMs: number;
}

/**
 * Takes back and counts the requests of distinct windows. The rows are locked in the order of their keys, so that two
 * processes never wait for each other.
 *
 * A row that a statement proposes has the wanted number as `granted`: below 0 if all of them are to be counted or none. So one
 * statement decides. If a part was counted and then taken back, another process would meanwhile find the window full, and
 * would refuse the key until the second that it was told. A stored row may have the number in this form as well; nothing
 * reads it.
 */
export async function countBatch(
  database: Database,
  asked: readonly WindowRequests[],
  deadlineMs: number,
): Promise<Counted[]> {
  return await database.query<Counted>(
    (sql) => sql`
      insert into shared_windows as w (key_id, endpoint, most, newest_second, counts, total, granted, taken_back)
      select "keyUuid", asked.endpoint, first.most, first.newest_second, first.counts, first.total,
             case when "isWhole" then -first.granted else first.granted end, "takenBack"
        from (select * from json_to_recordset(${JSON.stringify(asked)}::text::json) as
                asked ("keyUuid" uuid, endpoint text, "limit" integer, wanted integer, "isWhole" boolean,
                       "takenBack" bigint[])
               order by "keyUuid", endpoint) asked
       cross join lateral count_requests(null, wanted, "limit", null) first
          on conflict (key_id, endpoint) do update
         set (most, newest_second, counts, total, granted, taken_back) = (
               select next.most, next.newest_second, next.counts, next.total, next.granted, next.taken_back
                 from count_requests(w, case
                        when excluded.granted >= 0 then excluded.granted
                        when (count_requests(w, 0, excluded.most, excluded.taken_back)).total - excluded.granted
                             <= excluded.most then -excluded.granted
                        else 0 end, excluded.most, excluded.taken_back) next)
      returning key_id as "keyUuid", endpoint, abs(granted) as granted, total, newest_second as second,
                last_second(w) as "lastSecond", room_second(w) as "roomSecond",
                floor(extract(epoch from clock_timestamp()) * 1000)::bigint as "nowMs"`,
    { deadlineMs },
  );
}

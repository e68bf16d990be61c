import { toId } from "../../base/ids.ts";
import { type Database, toTextArray } from "../../database/mod.ts";
import type { Reading } from "../mod.ts";
import { type KeySummary, listKeys } from "./list_keys.ts";

/** The most counts that are read; if there are more, the earliest counts of each time are left out. */
const MOST_READ = 30_000;

/** A time with refusals for too many requests. */
interface RefusedTime {
  readonly from: Date;
  readonly to: Date;
  /** The number of all refusals for too many requests in this time. */
  readonly count: number;
}

export interface RefusedKey {
  readonly key: KeySummary;
  readonly refused: number;
}

/**
 * Finds the keys that had at least a tenth of the refusals of each time, at most three a time, the key with the most
 * refusals first. Only the last 25 hours are known.
 */
export async function findMostRefused(
  database: Database,
  times: readonly RefusedTime[],
  { now, restriction }: Reading,
): Promise<readonly (readonly RefusedKey[])[]> {
  if (times.length === 0) return [];
  const rows = await database.read<{ nth: number; uuid: string; refused: number }>(
    (sql) => sql`
      select nth, most.key_id as uuid, most.refused
        from unnest(${toTextArray(times.map(({ from }) => from.toISOString()))}::timestamptz[],
                    ${toTextArray(times.map(({ to }) => to.toISOString()))}::timestamptz[],
                    ${toTextArray(times.map(({ count }) => count))}::bigint[])
             with ordinality as given (from_at, to_at, count, nth)
             cross join lateral (
               select key_id, sum(refused::float8) as refused
                 from (select key_id, refused from too_many_requests
                        where began_at >= from_at and began_at < to_at
                        order by began_at desc limit ${Math.ceil(MOST_READ / times.length)}) as counted
                group by key_id having sum(refused::float8) > 0 and sum(refused::float8) * 10 >= count
                order by 2 desc, 1 limit 3) as most
       order by nth, most.refused desc, uuid`,
  );
  const uuids = [...new Set(rows.map(({ uuid }) => uuid))];
  const keys = uuids.length === 0 ? [] : await listKeys(database, { now, filter: { uuids, restriction } });
  const byId = new Map(keys.map((key) => [key.id, key]));
  return times.map((_, index) =>
    rows.flatMap(({ nth, uuid, refused }) => {
      const key = nth === index + 1 ? byId.get(toId("key", uuid)) : undefined;
      return key === undefined ? [] : { key, refused };
    }),
  );
}

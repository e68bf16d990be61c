/** Counters and rows for the tests of latencies. */
import type { Database } from "../../../src/database/mod.ts";
import { BOUNDS_SECONDS, type LatencyCount } from "../../../src/usage/latency/mod.ts";

/** Returns the buckets of requests that took so many milliseconds. */
export function bucketsOf(...durationsMs: readonly number[]): number[] {
  const buckets = Array<number>(BOUNDS_SECONDS.length + 1).fill(0);
  for (const ms of durationsMs) {
    const found = BOUNDS_SECONDS.findIndex((bound) => ms / 1_000 <= bound);
    const bucket = found === -1 ? BOUNDS_SECONDS.length : found;
    buckets[bucket] = (buckets[bucket] ?? 0) + 1;
  }
  return buckets;
}

/** The counters of a process. */
export function counters() {
  const counts = new Map<string, LatencyCount>();
  return {
    read: () => [...counts.values()],
    answer(endpoint: string, ms: number, { refused = 0, failed = 0 } = {}) {
      const known = counts.get(endpoint) ?? { endpoint, refused: 0, failed: 0, buckets: bucketsOf() };
      const added = bucketsOf(ms);
      counts.set(endpoint, {
        endpoint,
        refused: known.refused + refused,
        failed: known.failed + failed,
        buckets: known.buckets.map((count, bucket) => count + (added[bucket] ?? 0)),
      });
    },
  };
}

/** Each row as `time endpoint requests/refused/failed`, the earliest first. */
export async function rowsOf(database: Pick<Database, "query">): Promise<string[]> {
  const found = await database.query<{ row: string }>(
    (sql) => sql`
      select concat_ws(' ', to_char(at at time zone 'UTC', 'MM-DD HH24:MI'), endpoint,
                       concat_ws('/', (select sum(count) from unnest(buckets) as count), refused, failed)) as row
        from latency_steps order by at, endpoint, process_id`,
  );
  return found.map(({ row }) => row);
}

/** Counters and rows for the tests of latencies. */
import { DAY_MS } from "../../../src/base/calendar.ts";
import { newUuid } from "../../../src/base/ids.ts";
import type { Database } from "../../../src/database/mod.ts";
import { addLatency, BOUNDS_SECONDS, type LatencyCount, STEP_MS } from "../../../src/usage/latency/mod.ts";
import { createRandom } from "../../support/random.ts";

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

/**
 * Adds a day and an hour of requests of some endpoints: `validate` is slower in the last two hours, `analytics` fails at times,
 * `models` is used seldom.
 */
export async function addDayOfLatency(database: Pick<Database, "query">, nowMs: number): Promise<void> {
  const lastMs = nowMs - (nowMs % STEP_MS);
  const random = createRandom(7);
  const gains = Array.from({ length: 12 * 25 }, (_, ago) => {
    const atMs = lastMs - ago * STEP_MS;
    const busy = 1 + Math.round(60 * (1 + Math.sin((atMs / DAY_MS) * 2 * Math.PI)));
    const of = (endpoint: string, ms: number, { requests = busy, refused = 0, failed = 0 } = {}) => {
      const durations = Array.from({ length: requests }, () => ms * 10 ** (random.next() ** 3));
      return { atMs, count: { endpoint, refused, failed, buckets: bucketsOf(...durations) } };
    };
    return [
      of("validate", ago < 24 ? 18 : 0.4, { refused: ago % 7 === 0 ? 3 : 0 }),
      of("analytics", 9, { failed: ago === 3 ? 2 : 0 }),
      of("health", 0.2, { requests: 60 }),
      ...(ago % 9 === 0 ? [of("models", 3, { requests: 2 })] : []),
    ];
  });
  await addLatency(database, gains.flat(), { processUuid: newUuid() });
}

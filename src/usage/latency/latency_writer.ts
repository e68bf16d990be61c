import type { Clock } from "../../base/clock.ts";
import { createDifferenceWriter, type Database } from "../../database/mod.ts";
import { addLatency, type LatencyCount } from "./add_latency.ts";
import { STEP_MS } from "./bounds.ts";

interface LatencyWriterOptions {
  readonly database: Pick<Database, "query">;
  readonly clock: Clock;
  readonly processUuid: string;
  /** Reads the counters of all endpoints. */
  readonly read: () => readonly LatencyCount[];
  /** How often the writer looks at the clock; once a second by default. */
  readonly tickMs?: number;
}

/** Adds the counts of this process to its rows of five minutes. */
export function createLatencyWriter({ database, processUuid, ...options }: LatencyWriterOptions) {
  return createDifferenceWriter<LatencyCount>({
    ...options,
    stepMs: STEP_MS,
    idOf: ({ endpoint }) => endpoint,
    add: (one, other) => combine(one, other, (a, b) => a + b),
    gained(now, before) {
      const count = before === undefined ? now : combine(now, before, (a, b) => a - b);
      return count.buckets.some((requests) => requests > 0) ? count : undefined;
    },
    write: (gains) => addLatency(database, gains, { processUuid }),
  });
}

function combine(
  one: LatencyCount,
  other: LatencyCount,
  of: (one: number, other: number) => number,
): LatencyCount {
  return {
    endpoint: one.endpoint,
    refused: of(one.refused, other.refused),
    failed: of(one.failed, other.failed),
    buckets: one.buckets.map((requests, bucket) => of(requests, other.buckets[bucket] ?? 0)),
  };
}

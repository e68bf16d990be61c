/** Adds the counts of this process to the rows of hours and days. Several processes add to the same rows. */
import { HOUR_MS } from "../../base/calendar.ts";
import type { Clock } from "../../base/clock.ts";
import { createDifferenceWriter, type Database } from "../../database/mod.ts";
import { type AnswerCount, addActivity } from "./add_activity.ts";

interface ActivityWriterOptions {
  readonly database: Pick<Database, "query">;
  readonly clock: Clock;
  /** Reads the counters. Two of them may have the same endpoint, code and reason. */
  readonly read: () => readonly AnswerCount[];
  /** How often the writer looks at the clock; once a second by default. */
  readonly tickMs?: number;
}

/** Creates the writer of the counts of answers by hour. */
export function createActivityWriter({ database, ...options }: ActivityWriterOptions) {
  return createDifferenceWriter<AnswerCount>({
    ...options,
    stepMs: HOUR_MS,
    // Endpoints, codes and reasons contain no spaces.
    idOf: ({ endpoint, code, reason }) => `${endpoint} ${code} ${reason}`,
    add: (one, other) => ({ ...one, count: one.count + other.count }),
    gained(now, before) {
      const { endpoint, code, reason } = now;
      const count = now.count - (before?.count ?? 0);
      return count > 0 ? { endpoint, code, reason, count } : undefined;
    },
    write: (gains) =>
      addActivity(
        database,
        gains.map(({ atMs, count }) => ({ hourMs: atMs, ...count })),
      ),
  });
}

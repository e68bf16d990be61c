import { HOUR_MS } from "../../base/calendar.ts";
import type { Database } from "../../database/mod.ts";
import { deleteInBatches, type TaskContext, type UpkeepTask } from "../../database/upkeep/mod.ts";
import { LATENCY_KEPT_HOURS } from "./bounds.ts";
import { mergeLatency } from "./merge_latency.ts";

/** A row that lies further ahead was written by a wrong clock. */
const MOST_AHEAD_MS = HOUR_MS;

export const latencyUpkeep: UpkeepTask = {
  name: "latency",
  everyMs: 600_000,
  failed: "Could not delete or merge old latencies of requests: it is tried again",
  async run(context) {
    await deleteOldLatency(context);
    await mergeLatency(context);
  },
};

/**
 * Deletes rows of more than {@linkcode LATENCY_KEPT_HOURS} hours ago, and those of a wrong clock. The clock of this process and
 * that of the database must agree: otherwise a process with a wrong clock would delete the rows of all others.
 */
export async function deleteOldLatency({ clock, ...context }: Omit<TaskContext, "log">): Promise<void> {
  const now = new Date(clock.nowMs());
  await deleteInBatches(context, {
    table: "latency_steps",
    primaryKey: ["at", "endpoint", "process_id"],
    isOld: (sql) => sql`
      at < least(now(), ${now}::timestamptz) - ${LATENCY_KEPT_HOURS}::integer * interval '1 hour'
      or at > greatest(now(), ${now}::timestamptz) + ${MOST_AHEAD_MS}::integer * interval '1 millisecond'`,
  });
}

/** Deletes the rows of a process that were not merged with those of others. */
export async function deleteLatencyOf(database: Pick<Database, "query">, processUuid: string): Promise<void> {
  await database.query((sql) => sql`delete from latency_steps where process_id = ${processUuid}::uuid`);
}

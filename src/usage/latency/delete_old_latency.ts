import { HOUR_MS } from "../../base/calendar.ts";
import { deleteInBatches, type TaskContext, type UpkeepTask } from "../../database/upkeep/mod.ts";
import { LATENCY_KEPT_HOURS } from "./bounds.ts";

/** A row that lies further ahead was written by a wrong clock. */
const MOST_AHEAD_MS = HOUR_MS;

export const latencyUpkeep: UpkeepTask = {
  name: "latency",
  everyMs: 600_000,
  failed: "Could not delete old latencies of requests: it is tried again",
  run: deleteOldLatency,
};

/** Deletes rows of more than {@linkcode LATENCY_KEPT_HOURS} hours ago, and those of a wrong clock. */
export async function deleteOldLatency({ clock, ...context }: Omit<TaskContext, "log">): Promise<void> {
  const firstKept = new Date(clock.nowMs() - LATENCY_KEPT_HOURS * HOUR_MS);
  const lastKept = new Date(clock.nowMs() + MOST_AHEAD_MS);
  await deleteInBatches(context, {
    table: "latency_steps",
    primaryKey: ["at", "endpoint", "process_id"],
    isOld: (sql) => sql`at < ${firstKept}::timestamptz or at > ${lastKept}::timestamptz`,
  });
}

import { deleteInBatches, type TaskContext, type UpkeepTask } from "../upkeep/mod.ts";

export const sharedWindowsUpkeep: UpkeepTask = {
  name: "shared_windows",
  everyMs: 600_000,
  failed: "Could not delete the windows of idle keys: it is tried again",
  run: deleteIdle,
};

/** Deletes the windows in which no request counts any more. */
export async function deleteIdle(context: Pick<TaskContext, "database" | "isStopping">): Promise<void> {
  await deleteInBatches(context, {
    table: "shared_windows",
    primaryKey: ["key_id", "endpoint"],
    isOld: (sql) => sql`newest_second < extract(epoch from clock_timestamp()) - 61`,
  });
}

import type { TaskContext, UpkeepTask } from "../upkeep/mod.ts";

/** A small number, so that a request whose row is locked meanwhile hardly waits. */
const BATCH_ROWS = 1_000;

export const sharedWindowsUpkeep: UpkeepTask = {
  name: "shared_windows",
  everyMs: 600_000,
  failed: "Could not delete the windows of idle keys: it is tried again",
  run: deleteIdle,
};

/** Deletes the windows in which no request counts any more. Skips rows that a request locks, so it never waits. */
export async function deleteIdle({
  database,
  isStopping,
}: Pick<TaskContext, "database" | "isStopping">): Promise<void> {
  for (let deleted = BATCH_ROWS; deleted === BATCH_ROWS && !isStopping(); ) {
    const rows = await database.query(
      (sql) => sql`
        delete from shared_windows
         where (key_id, endpoint) in (
                 select key_id, endpoint from shared_windows
                  where newest_second < extract(epoch from clock_timestamp()) - 61
                  limit ${BATCH_ROWS} for update skip locked
               )
        returning 1 as deleted`,
    );
    deleted = rows.length;
  }
}

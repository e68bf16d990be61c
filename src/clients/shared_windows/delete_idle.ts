import { deleteInBatches, type UpkeepTask } from "../../database/upkeep/mod.ts";

/** Deletes the windows in which no request counts any more. */
export const sharedWindowsUpkeep: UpkeepTask = {
  name: "shared_windows",
  everyMs: 600_000,
  failed: "Could not delete the windows of idle keys: it is tried again",
  run: (context) =>
    deleteInBatches(context, {
      table: "shared_windows",
      primaryKey: ["key_id", "endpoint"],
      isOld: (sql) => sql`newest_second < extract(epoch from clock_timestamp()) - 61`,
    }),
};

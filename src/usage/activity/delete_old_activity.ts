import { toDay } from "../../base/calendar.ts";
import { deleteInBatches, type TaskContext, type UpkeepTask } from "../../database/upkeep/mod.ts";
import { ACTIVITY_KEPT_DAYS, goBack } from "./activity_query.ts";

/** Runs seldom: old counts do no harm. */
export const activityUpkeep: UpkeepTask = {
  name: "activity",
  everyMs: 600_000,
  failed: "Could not delete old counts of requests: it is tried again",
  run: deleteOldActivity,
};

/** Deletes counts of days that ended more than {@linkcode ACTIVITY_KEPT_DAYS} days ago. */
export async function deleteOldActivity(context: Omit<TaskContext, "log">): Promise<void> {
  const firstKept = goBack(context.clock.now(), "day", ACTIVITY_KEPT_DAYS);
  const rest = ["endpoint", "code", "reason"];
  await deleteInBatches(context, {
    table: "activity_hours",
    primaryKey: ["hour", ...rest],
    isOld: (sql) => sql`hour < ${firstKept}::timestamptz`,
  });
  await deleteInBatches(context, {
    table: "activity_days",
    primaryKey: ["day", ...rest],
    isOld: (sql) => sql`day < ${toDay(firstKept)}::date`,
  });
}

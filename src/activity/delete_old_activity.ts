import { toDay } from "../calendar.ts";
import type { Database, Fragment, Sql } from "../database/mod.ts";
import type { TaskContext, UpkeepTask } from "../upkeep/mod.ts";
import { goBack } from "./activity_query.ts";

/** For how many days counts are kept. */
export const ACTIVITY_KEPT_DAYS = 400;
/** A small number, because a process that adds to a locked row waits until the batch is committed. */
const BATCH_ROWS = 1_000;

/** Runs seldom: old counts do no harm. */
export const activityUpkeep: UpkeepTask = {
  name: "activity",
  everyMs: 600_000,
  failed: "Could not delete old counts of requests: it is tried again",
  run: deleteOldActivity,
};

/** Deletes counts of days that ended more than {@linkcode ACTIVITY_KEPT_DAYS} days ago, in batches. */
export async function deleteOldActivity({
  database,
  clock,
  isStopping,
}: Omit<TaskContext, "log">): Promise<void> {
  const firstKept = goBack(clock.now(), "day", ACTIVITY_KEPT_DAYS);
  const deleteBatch = (table: string, column: string, isOld: (sql: Sql) => Fragment) =>
    database.query(
      (sql) => sql`
        delete from ${sql(table)}
         where (${sql(column)}, endpoint, code, reason) in (
                 select ${sql(column)}, endpoint, code, reason from ${sql(table)}
                  where ${isOld(sql)}
                  order by ${sql(column)} limit ${BATCH_ROWS} for update skip locked
               )
        returning 1 as deleted`,
    );
  const batches = [
    () => deleteBatch("activity_hours", "hour", (sql) => sql`hour < ${firstKept}::timestamptz`),
    () => deleteBatch("activity_days", "day", (sql) => sql`day < ${toDay(firstKept)}::date`),
  ];
  for (const deleteOne of batches) {
    for (let deleted = BATCH_ROWS; deleted === BATCH_ROWS && !isStopping(); )
      deleted = (await deleteOne()).length;
  }
}

/** Deletes the counts that have this reason. All counts of a demo have a reason that only a demo uses. */
export async function deleteActivity(database: Pick<Database, "query">, reason: string): Promise<void> {
  await database.query(
    (sql) => sql`
      with days as (delete from activity_days where reason = ${reason})
      delete from activity_hours where reason = ${reason}`,
  );
}

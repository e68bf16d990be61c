import type { Database } from "../database/mod.ts";

/** For how many days the hourly counts are kept. */
export const ACTIVITY_KEPT_DAYS = 400;
/** A small number, so that a process that adds its counts meanwhile hardly waits. */
const BATCH_ROWS = 1_000;

/** Deletes the counts of hours that began more than {@linkcode ACTIVITY_KEPT_DAYS} days ago, in batches. */
export async function deleteOldActivity(
  database: Pick<Database, "query">,
  { now, isStopping }: { readonly now: Date; readonly isStopping: () => boolean },
): Promise<void> {
  const oldest = new Date(now.getTime() - ACTIVITY_KEPT_DAYS * 86_400_000);
  for (let deleted = BATCH_ROWS; deleted === BATCH_ROWS && !isStopping(); ) {
    const rows = await database.query(
      (sql) => sql`
        delete from activity_hours
         where (hour, endpoint, code, reason) in (
                 select hour, endpoint, code, reason from activity_hours
                  where hour < ${oldest}::timestamptz
                  order by hour limit ${BATCH_ROWS} for update skip locked
               )
        returning 1 as deleted`,
    );
    deleted = rows.length;
  }
}

/** Deletes all counts with a reason: a demo marks its own so. */
export async function deleteActivity(database: Pick<Database, "query">, reason: string): Promise<void> {
  await database.query((sql) => sql`delete from activity_hours where reason = ${reason}`);
}

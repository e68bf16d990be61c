import type { Database } from "../../database/mod.ts";

/** Deletes the counts that have this reason. All counts of a demo have a reason that only a demo uses. */
export async function deleteActivityByReason(
  database: Pick<Database, "query">,
  reason: string,
): Promise<void> {
  await database.query(
    (sql) => sql`
      with days as (delete from activity_days where reason = ${reason})
      delete from activity_hours where reason = ${reason}`,
  );
}

import type { Fragment, Sql } from "../mod.ts";
import type { TaskContext } from "./task.ts";

interface OldRows {
  readonly table: string;
  readonly primaryKey: readonly string[];
  readonly isOld: (sql: Sql) => Fragment;
  /** The most rows that one run deletes; all by default. */
  readonly mostRows?: number;
}

/** A small number, because a request that needs a row of a batch waits until the batch is committed. */
const BATCH_ROWS = 1_000;

/**
 * Deletes the old rows of a table in batches, until none is left or the service stops. Skips rows that a request has
 * locked, so it never waits.
 */
export async function deleteInBatches(
  { database, isStopping }: Pick<TaskContext, "database" | "isStopping">,
  { table, primaryKey, isOld, mostRows = Number.POSITIVE_INFINITY }: OldRows,
): Promise<void> {
  let total = 0;
  for (let deleted = BATCH_ROWS; deleted === BATCH_ROWS && total < mostRows && !isStopping(); ) {
    const rows = await database.query(
      (sql) => sql`
        delete from ${sql(table)}
         where (${sql(primaryKey)}) in (
                 select ${sql(primaryKey)} from ${sql(table)}
                  where ${isOld(sql)} limit ${BATCH_ROWS} for update skip locked
               )
        returning 1 as deleted`,
    );
    deleted = rows.length;
    total += deleted;
  }
}

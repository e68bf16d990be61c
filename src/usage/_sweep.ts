/**
 * Deletes old rows by walking through a table from its first page to its last, some pages at a time.
 *
 * No index helps here. New rows reuse the pages of deleted rows, and a block-range index never narrows
 * a range: after a day each range contains some old time, and each query reads the whole table. A B-tree would make
 * each event more expensive. A walk reads each page once, no matter how many rows were deleted before, and no matter
 * how long a backup prevents PostgreSQL from removing dead rows.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Fragment, Sql } from "../database/mod.ts";
import type { TaskContext } from "../database/upkeep/mod.ts";

/** The intended time of a batch: short, so that an event that arrives meanwhile is hardly slower. */
const BATCH_MS = 4;
export const FIRST_PAGES = 64;
const MAX_PAGES = 4_096;
/** The pause after a batch is this many times as long as the batch. */
const REST_FACTOR = 8;
const MAX_REST_MS = 1_000;

/**
 * Returns a function that deletes all rows of a table for which `isOld`, an SQL condition, holds. It throws the errors
 * of `query`.
 */
export function createSweep(
  table: string,
  isOld: (sql: Sql, now: Date) => Fragment,
): (context: Omit<TaskContext, "log">) => Promise<void> {
  let batchPages = FIRST_PAGES;

  // The commit does not wait for the disk: if a crash brings rows back, the next walk deletes them again.
  const deleteOld = ({ database, clock }: Omit<TaskContext, "log">, first: number) =>
    database.query(
      (sql) => sql`
        delete from ${sql(table)}
         where ctid >= ${`(${first},0)`}::tid and ctid < ${`(${first + batchPages},0)`}::tid
           and ${isOld(sql, clock.now())}
           and (select set_config('synchronous_commit', 'off', true)) = 'off'`,
    );

  return async (context) => {
    const { database, clock, isStopping } = context;
    const [size] = await database.query<{ pages: number }>(
      (sql) =>
        sql`select pg_relation_size(${table}::regclass) / current_setting('block_size')::integer as pages`,
    );
    const pages = size?.pages ?? 0;
    for (let first = 0; first < pages && !isStopping(); ) {
      const beganMs = clock.monotonicMs();
      try {
        await deleteOld(context, first);
      } catch (error) {
        // The next batch must be small enough for the deadline.
        batchPages = Math.max(1, batchPages >> 2);
        throw error;
      }
      first += batchPages;
      const tookMs = clock.monotonicMs() - beganMs;
      batchPages = nextPages(batchPages, tookMs);
      if (first < pages) await rest(tookMs);
    }
  };
}

/** Returns the number of pages of the next batch. */
export function nextPages(pages: number, tookMs: number): number {
  if (tookMs > 2 * BATCH_MS) return Math.max(1, pages >> 1);
  return tookMs < BATCH_MS / 2 ? Math.min(MAX_PAGES, pages << 1) : pages;
}

/** Waits after a batch, so that the disk and the processor are free for events most of the time. */
export async function rest(tookMs: number): Promise<void> {
  await sleep(Math.min(MAX_REST_MS, REST_FACTOR * tookMs));
}

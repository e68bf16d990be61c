import { DAY_MS } from "../base/calendar.ts";
import type { UpkeepTask } from "../database/upkeep/mod.ts";

/** A part is read in some milliseconds, so that other statements hardly wait for the disk. */
const PART_BYTES = 2 * 1024 * 1024;

/**
 * Reads the files of the PostgreSQL inside after a start, and then once a day: a page of a list reads hundreds of
 * places in tables and indexes, and a disk takes up to a millisecond for each place that the system has not cached yet.
 *
 * The smallest tables and indexes come first, up to the size of PostgreSQL's own cache. Events are left out, because no
 * list reads them.
 */
export const warmUp: UpkeepTask = {
  name: "warm_up",
  firstMs: 100,
  everyMs: DAY_MS,
  failed: "Cannot read the tables ahead",
  async run({ database, isStopping }) {
    const parts = await database.query<{ path: string; at: number }>(
      (sql) => sql`
        select path, at
          from (select pg_relation_filepath(oid) as path, size, sum(size) over (order by size, oid) as total
                  from pg_class cross join lateral pg_relation_size(oid) as size
                 where relnamespace = 'public'::regnamespace and relkind in ('r', 'i') and not relispartition) as file
               cross join lateral generate_series(0, size - 1, ${PART_BYTES}::bigint) as at
         where total <= pg_size_bytes(current_setting('shared_buffers'))`,
    );
    for (const { path, at } of parts) {
      if (isStopping()) return;
      await database.query(
        // True: a file that was replaced in the meantime is no failure.
        (sql) => sql`select length(pg_read_binary_file(${path}, ${at}::bigint, ${PART_BYTES}::bigint, true))`,
      );
    }
  },
};

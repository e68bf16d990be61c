import { HOUR_MS } from "../../base/calendar.ts";
import type { TaskContext } from "../../database/upkeep/mod.ts";
import { addedToRow, SHARED } from "./add_latency.ts";
import { STEP_MS } from "./bounds.ts";
import { sumsOfBuckets } from "./sums_of_buckets.ts";

/** The page Health shows each process by itself, in its last hour and the five minutes in which that begins. */
const MERGED_AFTER_MS = HOUR_MS + 2 * STEP_MS;

/**
 * Merges the rows of all processes in five minutes that lie back, because every page reads a day of them: with 16 processes it
 * reads a tenth of the rows. Later requests of the same five minutes are added as always, and merged the next time. As in
 * `delete_old_latency.ts`, the clocks of this process and of the database must agree.
 */
export async function mergeLatency({ database, clock, isStopping }: Omit<TaskContext, "log">): Promise<void> {
  const before = new Date(clock.nowMs() - MERGED_AFTER_MS);
  const steps = await database.query<{ at: Date }>(
    (sql) => sql`
      select distinct at
        from latency_steps
       where at < least(${before}::timestamptz, now() - ${MERGED_AFTER_MS}::integer * interval '1 millisecond')
       group by at, endpoint
      having count(*) > 1
       order by at`,
  );
  for (const { at } of steps) {
    if (isStopping()) return;
    await database.query(
      (sql) => sql`
        with merged as (
          delete from latency_steps
           where at = ${at}::timestamptz and process_id <> ${SHARED}::uuid
          returning endpoint, refused, failed, buckets
        )
        insert into latency_steps as l (at, endpoint, process_id, refused, failed, buckets)
        select ${at}::timestamptz, endpoint, ${SHARED}::uuid, sum(refused), sum(failed),
               array[${sumsOfBuckets(sql)}]::bigint[]
          from merged
         group by endpoint
         order by endpoint collate "C"
        ${addedToRow(sql)}`,
    );
  }
}

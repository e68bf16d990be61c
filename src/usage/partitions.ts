/**
 * Events lie in a partition a month. Partitions are made ahead, and an event for whose month there is none
 * goes to the default partition, `events_elsewhen`.
 *
 * PostgreSQL attaches no month of which the default partition has rows, so these move in the transaction that
 * attaches it. They move first, when nobody waits: until the commit, others see them where they were. Then all
 * of `events` is locked for as long as it takes to look through the default partition once more. Without that
 * lock a report that was planned just before would read neither place, and an event that was on its way to the
 * default partition would be refused. The lock is asked for briefly and again after growing pauses, because
 * every insert waits behind whoever waits for it.
 */
import { type Month, toMonth } from "../calendar.ts";
import type { Database } from "../database/mod.ts";
import { PARTITION_LOCK } from "./_partition_lock.ts";

export interface AttachOptions {
  /** For how long the lock is asked for again; 1,000 by default. */
  readonly patienceMs?: number;
}

/** Pages of the default partition whose events move at a time. */
const MOVED_PAGES = 1_000;
/** An insert of this moment goes behind the last page, or into one of so many last pages. */
const RECENT_PAGES = 1_024;

function partitionOf({ firstDay }: Month): string {
  return `events_${firstDay.slice(0, 7).replace("-", "_")}`;
}

/**
 * Makes and attaches a month's partition where there is none, and moves the month's events into it, in one
 * statement of its own.
 */
export async function attach(
  database: Pick<Database, "query">,
  month: Month,
  { patienceMs = 1_000 }: AttachOptions = {},
): Promise<void> {
  const name = partitionOf(month);
  const from = `'${month.firstDay}T00:00:00Z'`;
  const until = `'${toMonth(month.index + 1).firstDay}T00:00:00Z'`;
  const moveFrom = (pages: string) => `
        with late as (
          delete from events_elsewhen where ${pages} and received_at >= ${from} and received_at < ${until}
          returning *
        )
        insert into ${name} select * from late;`;
  // A `do` block is one statement, and takes no parameters: everything in it is made of digits.
  await database.query((sql) =>
    sql.unsafe(`
      do $$
      declare
        give_up_at timestamptz;
        pause_seconds double precision := 0.25;
        pages bigint;
      begin
        perform set_config('lock_timeout', '1s', true);
        -- Processes that start together take turns. One that takes long moves events, for all of them.
        begin
          perform pg_advisory_xact_lock(${PARTITION_LOCK});
        exception when lock_not_available then return;
        end;
        if exists (select from pg_inherits where inhrelid = to_regclass('${name}')) then return; end if;
        if to_regclass('${name}') is null then
          -- With its indexes and a constraint there is nothing to build and to check when it is attached.
          create table ${name} (like events including defaults including constraints including indexes,
            constraint ${name}_range check (received_at >= ${from} and received_at < ${until}));
          -- An index on an empty table begins with a filter for its first pages. Each event that comes there would
          -- be written into it at once, for 0.2 ms; without one they wait for vacuum like those of all other pages.
          perform brin_desummarize_range(indexrelid, 0)
             from pg_index
             join pg_class on pg_class.oid = indexrelid
             join pg_am on pg_am.oid = relam
            where indrelid = to_regclass('${name}') and amname = 'brin';
        end if;
        -- Otherwise the index of the default partition would be used for some pages, and all of it read each time.
        perform set_config('enable_bitmapscan', 'off', true);
        pages := pg_relation_size('events_elsewhen') / current_setting('block_size')::integer;
        for page in 0 .. pages by ${MOVED_PAGES} loop
          ${moveFrom(`ctid >= format('(%s,0)', page)::tid and ctid < format('(%s,0)', page + ${MOVED_PAGES})::tid`)}
        end loop;
        perform set_config('lock_timeout', '250ms', true);
        give_up_at := clock_timestamp() + interval '${patienceMs} ms';
        loop
          begin
            lock table only events in access exclusive mode;
            lock table events_elsewhen in access exclusive mode;
            exit;
          exception when lock_not_available then
            if clock_timestamp() > give_up_at then raise; end if;
            perform pg_sleep(pause_seconds);
            pause_seconds := least(2 * pause_seconds, 30);
          end;
        end loop;
        -- Moves the events that came meanwhile. If one is in an earlier page, the next statement fails and undoes all.
        ${moveFrom(`ctid >= format('(%s,0)', greatest(pages - ${RECENT_PAGES}, 0))::tid`)}
        alter table events attach partition ${name} for values from (${from}) to (${until});
        alter table ${name} drop constraint if exists ${name}_range;
      end
      $$`),
  );
}

/**
 * The months before `end` of which the default partition has events, and of which there is no table: one that
 * was taken off by an operator stays off.
 */
export async function findLateMonths(database: Pick<Database, "query">, end: Month): Promise<Month[]> {
  const rows = await database.query<{ index: number }>(
    (sql) => sql`
      select extract(year from month)::integer * 12 + extract(month from month)::integer - 1 as index
        from (
          select distinct date_trunc('month', received_at at time zone 'UTC') as month
            from events_elsewhen where received_at < ${`${end.firstDay}T00:00:00Z`}::text::timestamptz
        ) as months
       where to_regclass(to_char(month, '"events_"YYYY"_"MM')) is null
       order by index`,
  );
  return rows.map(({ index }) => toMonth(index));
}

/** Whether events of a month are in the default partition. */
export async function hasLateEvents(database: Pick<Database, "query">, month: Month): Promise<boolean> {
  const until = toMonth(month.index + 1).firstDay;
  const found = await database.query(
    (sql) => sql`
      select from events_elsewhen
       where received_at >= ${`${month.firstDay}T00:00:00Z`}::text::timestamptz
         and received_at < ${`${until}T00:00:00Z`}::text::timestamptz
       limit 1`,
  );
  return found.length > 0;
}

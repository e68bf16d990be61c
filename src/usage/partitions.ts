/**
 * Events are stored in one partition for each month. Partitions are created ahead. An event whose month has no
 * partition goes to the default partition, `events_elsewhen`.
 *
 * PostgreSQL does not attach the partition of a month while the default partition has rows of that month, so these
 * rows move in the transaction that attaches the partition. They move first, and no other session waits for that:
 * until the commit, other sessions see the rows in the default partition. Then all of `events` is locked for as long
 * as it takes to read the default partition once more. Without that lock a report that was planned just before would
 * read neither partition, and an event on its way to the default partition would be refused. The lock is requested
 * with a short timeout, and again after growing pauses, because every insert waits behind the waiting request.
 */
import { type Month, toMonth, toMonthText } from "../base/calendar.ts";
import type { Database } from "../database/mod.ts";

/** The advisory lock of processes that create or drop partitions: any number except that of the migrations. */
export const PARTITION_LOCK = 4_127_551_890;
/** The number of pages of the default partition whose events move at a time. */
const MOVED_PAGES = 1_000;
/**
 * After how many new events vacuum reads a partition. Until then, the index lacks the times of their pages, so a query
 * for the events of the last minute reads all of these pages. By default, that would be a fifth of the partition.
 */
const VACUUM_SETTINGS =
  "autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000";
/** A new row goes into a new last page, or into one of this many pages before it. */
const RECENT_PAGES = 1_024;

function partitionOf(month: Month): string {
  return `events_${toMonthText(month).replace("-", "_")}`;
}

/**
 * Creates and attaches the partition of a month if there is none, and moves the month's events into it, all in one
 * separate statement. Requests the lock for `patienceMs`. One long function, because it is one statement.
 */
export async function attach(
  database: Pick<Database, "query">,
  month: Month,
  { patienceMs = 1_000 }: { readonly patienceMs?: number } = {},
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
  // A `do` block is one statement and takes no parameters. That is safe: every value in it is made of digits.
  await database.query((sql) =>
    sql.unsafe(`
      do $$
      declare
        give_up_at timestamptz;
        pause_seconds double precision := 0.25;
        pages bigint;
      begin
        perform set_config('lock_timeout', '1s', true);
        -- Processes that start together take turns. A process that takes long moves events, for all processes.
        begin
          perform pg_advisory_xact_lock(${PARTITION_LOCK});
        exception when lock_not_available then return;
        end;
        if exists (select from pg_inherits where inhrelid = to_regclass('${name}')) then
          -- A partition of an earlier version. No insert waits for this lock, and a vacuum may hold it for long.
          if exists (select from pg_class where oid = to_regclass('${name}') and reloptions is null) then
            perform set_config('lock_timeout', '250ms', true);
            begin
              alter table ${name} set (${VACUUM_SETTINGS});
            exception when lock_not_available then null;
            end;
          end if;
          return;
        end if;
        if to_regclass('${name}') is null then
          ${createTable(name, { from, until })}
        end if;
        -- Otherwise the planner would use the index of the default partition for a few pages, and each time read all
        -- of the index.
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
        -- Moves the events that arrived meanwhile. If an event is on an earlier page, the attach statement
        -- fails and everything is rolled back.
        ${moveFrom(`ctid >= format('(%s,0)', greatest(pages - ${RECENT_PAGES}, 0))::tid`)}
        alter table events attach partition ${name} for values from (${from}) to (${until});
        alter table ${name} drop constraint if exists ${name}_range;
      end
      $$`),
  );
}

/** Returns the statements that create the table of a partition. */
function createTable(name: string, { from, until }: Readonly<Record<"from" | "until", string>>): string {
  return `
          -- The table has the indexes and a constraint, so attaching it builds no index and checks no rows.
          create table ${name} (like events including defaults including constraints including indexes,
            constraint ${name}_range check (received_at >= ${from} and received_at < ${until}));
          alter table ${name} set (${VACUUM_SETTINGS});
          -- An index on an empty table begins with a filter for its first pages. Each event in these pages would be
          -- added to the filter at once, which takes 0.2 ms. Without the filter, these pages wait for vacuum like all
          -- other pages.
          perform brin_desummarize_range(indexrelid, 0)
             from pg_index
             join pg_class on pg_class.oid = indexrelid
             join pg_am on pg_am.oid = relam
            where indrelid = to_regclass('${name}') and amname = 'brin';`;
}

/**
 * Returns the months before `end` that have events in the default partition and have no table: a table that an
 * operator has detached stays detached.
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

/** Tells whether events of a month are in the default partition. */
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

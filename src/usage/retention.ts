/**
 * Drops events that are older than a setting allows, by whole months.
 *
 * Dropped events cannot be restored, so a clock that is wrong by years must not cause a drop. Therefore the newest
 * months with events before the present month always stay, as many as the setting says. And no month is dropped
 * while the clocks of the database and of this host are more than a day apart.
 *
 * A month's partition is detached with a short lock timeout and renamed. A second statement drops it. Inserts wait
 * for the first statement, and no insert waits for the drop. If a lock is not available (a backup reads the table),
 * the next round tries again. The new name identifies a table that a failed drop left behind, so a table that an
 * operator detached stays. The counts in `usage` stay too.
 */
import { DAY_MS, type Month, monthOf, toMonth } from "../base/calendar.ts";
import type { Clock } from "../base/clock.ts";
import type { Database } from "../database/mod.ts";
import type { TaskContext } from "../database/upkeep/mod.ts";
import { PARTITION_LOCK } from "./partitions.ts";

interface RetireOptions extends Pick<TaskContext, "clock" | "isStopping"> {
  readonly keptMonths: number;
  /** Called with the first day of each month that was dropped. */
  readonly onDropped: (firstDay: string) => void;
}

const OWN_TABLE = /^events_(\d{4})_(\d{2})(_expired)?$/;

/**
 * Drops each month that is more than `keptMonths` months ago and is older than the newest `keptMonths` months with
 * events before the present one. Throws the first error after all other months were done.
 */
export async function retireEvents(
  database: Pick<Database, "query">,
  { clock, keptMonths, onDropped, isStopping }: RetireOptions,
): Promise<void> {
  await checkClocks(database, clock);
  const now = monthOf(clock.nowMs());
  const tables = await findOldTables(database, now);
  const before = await findFirstMonthKept(database, tables, { now, keptMonths });
  let failure: { readonly error: unknown } | undefined;
  for (const { name, firstDay, isAttached } of tables) {
    if (isStopping()) break;
    if (isAttached && firstDay >= before) continue;
    try {
      if (isAttached) await detach(database, name);
      const table = isAttached ? `${name}_expired` : name;
      await database.query((sql) => sql.unsafe(`drop table if exists ${table}`));
      onDropped(firstDay);
    } catch (error) {
      // A month that is in use must not prevent the drop of other months.
      failure ??= { error };
    }
  }
  if (failure !== undefined) throw failure.error;
}

/** Throws, with a sentence for the operator, if the clocks of database and host are more than a day apart. */
async function checkClocks(database: Pick<Database, "query">, clock: Clock): Promise<void> {
  const [row] = await database.query<{ ms: number }>(
    (sql) => sql`select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as ms`,
  );
  const apartMs = (row?.ms ?? 0) - clock.nowMs();
  if (Math.abs(apartMs) <= DAY_MS) return;
  throw new Error(
    `the database's clock is ${Math.round(Math.abs(apartMs) / DAY_MS)} days ${apartMs < 0 ? "behind" : "ahead of"} ` +
      "this host's, so no events are dropped; set both right: timedatectl set-ntp true",
  );
}

interface OldTable {
  readonly name: string;
  readonly firstDay: string;
  readonly isAttached: boolean;
}

/** Returns the first day of the first month that stays. A month has events if its table has a row: one page is read. */
async function findFirstMonthKept(
  database: Pick<Database, "query">,
  tables: readonly OldTable[],
  { now, keptMonths }: { readonly now: Month; readonly keptMonths: number },
): Promise<string> {
  const byAge = toMonth(now.index - keptMonths).firstDay;
  let left = keptMonths;
  for (const { name, firstDay, isAttached } of tables.toReversed()) {
    if (!isAttached) continue;
    const [event] = await database.query((sql) => sql`select from ${sql(name)} limit 1`);
    if (event !== undefined) left--;
    if (left > 0) continue;
    if (firstDay < byAge) return firstDay;
    return byAge;
  }
  // Too few months have events: all of them stay.
  return "";
}

/** Returns the tables of the months before the present one, oldest first. */
async function findOldTables(database: Pick<Database, "query">, now: Month): Promise<OldTable[]> {
  const rows = await database.query<{ name: string; isAttached: boolean }>(
    (sql) => sql`
      select c.relname as name, i.inhparent is not null as "isAttached"
        from pg_class c
        left join pg_inherits i on i.inhrelid = c.oid and i.inhparent = 'events'::regclass
       where c.relkind = 'r'
         and c.relnamespace = (select relnamespace from pg_class where oid = 'events'::regclass)
         and c.relname like 'events\\_%'
       order by c.relname collate "C"`,
  );
  return rows.flatMap(({ name, isAttached }) => {
    const [, year, month, expired] = OWN_TABLE.exec(name) ?? [];
    // A detached table with the usual name belongs to the operator.
    if (year === undefined || isAttached === (expired !== undefined)) return [];
    const firstDay = `${year}-${month}-01`;
    return firstDay < now.firstDay ? [{ name, firstDay, isAttached }] : [];
  });
}
/** Detaches and renames a partition. `detach … concurrently` is impossible for a table with a default partition. */
async function detach(database: Pick<Database, "query">, name: string): Promise<void> {
  await database.query((sql) =>
    sql.unsafe(`
      do $$
      begin
        perform set_config('lock_timeout', '1s', true);
        perform pg_advisory_xact_lock(${PARTITION_LOCK});
        -- Another process was faster.
        if not exists (select from pg_inherits where inhrelid = to_regclass('${name}')) then return; end if;
        -- Inserts wait behind this request, so it waits only for a statement that is about to end.
        perform set_config('lock_timeout', '250ms', true);
        alter table events detach partition ${name};
        alter table ${name} rename to ${name}_expired;
      end
      $$`),
  );
}

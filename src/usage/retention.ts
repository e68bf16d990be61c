/**
 * Drops events that are older than a setting says, by whole months.
 *
 * A month's partition is taken off under a short lock timeout, given another name, and dropped by a second
 * statement: until then every insert waits for whoever takes it off, and afterwards nobody waits for the
 * drop. Where a lock cannot be had (a backup reads the table) it is tried again in the next hour. What is
 * left of a drop that failed is known by its name, so a table that an operator took off stays. The counts
 * in `usage` stay too.
 */
import { type Month, toMonth } from "../calendar.ts";
import type { Database } from "../database/mod.ts";
import { PARTITION_LOCK } from "./_partition_lock.ts";

export interface Retired {
  /** The first days of the months that were dropped. */
  readonly months: readonly string[];
  /** Events that lay in no month's partition, and were deleted. */
  readonly deleted: number;
}

export interface RetireOptions {
  /** The first month of which events are kept. */
  readonly from: Month;
  /** Asked between statements. */
  readonly isStopping?: () => boolean;
}

/**
 * The first month of which something is kept where events are kept for so many months: that many whole
 * months before the present one, so that no event goes before its time.
 */
export function firstMonthKept(now: Month, keptMonths: number): Month {
  return toMonth(now.index - keptMonths);
}

/** Rows of one statement, which takes some 20 ms, so that it never is in anybody's way. */
const BATCH_ROWS = 2_000;
/** Of one round; an hour later comes the next. */
const MAX_BATCHES = 500;
/** Unlinking a big table's files may take longer than a statement of the serving path ever should. */
const DROP_DEADLINE_MS = 60_000;
const EXPIRED = /^events_(\d{4})_(\d{2})(_expired)?$/;

/**
 * Drops every event that was received before that month. Throws {@linkcode RetirementFailed} where a lock was
 * not to be had, after all else was done, and what `query` throws where the database is away.
 */
export async function retireEvents(
  database: Pick<Database, "query">,
  { from, isStopping = () => false }: RetireOptions,
): Promise<Retired> {
  const months: string[] = [];
  let failure: unknown;
  for (const { name, firstDay, isAttached } of await findOldTables(database, from)) {
    if (isStopping()) break;
    try {
      if (isAttached) await detach(database, name);
      const table = isAttached ? `${name}_expired` : name;
      await database.query((sql) => sql.unsafe(`drop table if exists ${table}`), {
        deadlineMs: DROP_DEADLINE_MS,
      });
      months.push(firstDay);
    } catch (error) {
      // One that is in use must not keep the others, nor those that lie elsewhere.
      failure ??= error;
    }
  }
  let deleted = 0;
  for (let batch = 0; batch < MAX_BATCHES && !isStopping(); batch++) {
    const rows = await deleteElsewhere(database, from);
    deleted += rows;
    if (rows < BATCH_ROWS) break;
  }
  if (failure !== undefined) throw new RetirementFailed({ months, deleted }, failure);
  return { months, deleted };
}

/** Some of it could not be done; what was done is told. */
export class RetirementFailed extends Error {
  readonly retired: Retired;

  constructor(retired: Retired, cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.retired = retired;
  }
}

interface OldTable {
  readonly name: string;
  readonly firstDay: string;
  readonly isAttached: boolean;
}

async function findOldTables(database: Pick<Database, "query">, from: Month): Promise<OldTable[]> {
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
    const [, year, month, expired] = EXPIRED.exec(name) ?? [];
    // Not attached and of the usual name: the operator's own.
    if (year === undefined || isAttached === (expired !== undefined)) return [];
    const firstDay = `${year}-${month}-01`;
    return firstDay < from.firstDay ? [{ name, firstDay, isAttached }] : [];
  });
}

/** `detach … concurrently` is not for a table with a default partition. */
async function detach(database: Pick<Database, "query">, name: string): Promise<void> {
  await database.query((sql) =>
    sql.unsafe(`
      do $$
      begin
        perform set_config('lock_timeout', '1s', true);
        perform pg_advisory_xact_lock(${PARTITION_LOCK});
        -- Another process was faster.
        if not exists (select from pg_inherits where inhrelid = to_regclass('${name}')) then return; end if;
        -- Inserts wait behind whoever waits for this: no longer than a statement that is about to end.
        perform set_config('lock_timeout', '250ms', true);
        alter table events detach partition ${name};
        alter table ${name} rename to ${name}_expired;
      end
      $$`),
  );
}

async function deleteElsewhere(database: Pick<Database, "query">, from: Month): Promise<number> {
  const [row] = await database.query<{ rows: number }>(
    (sql) => sql`
      with gone as (
        delete from events_elsewhen
         where ctid = any (array(
           select ctid from events_elsewhen
            where received_at < ${`${from.firstDay}T00:00:00Z`}::text::timestamptz
            limit ${BATCH_ROWS}
         ))
        returning 1
      )
      select count(*)::integer as rows from gone`,
  );
  return row?.rows ?? 0;
}

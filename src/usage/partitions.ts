/**
 * Events lie in a partition a month. Partitions are made ahead, and an event for whose month there is none
 * goes to `events_elsewhen`.
 *
 * `create table … partition of` would wait behind a backup's lock with every insert queued behind it; so
 * the table is made alone and attached under a short lock timeout. What fails is tried again later. The
 * same round drops the months that are older than the setting says.
 */
import { type Month, monthOf, toMonth } from "../calendar.ts";
import type { Clock } from "../clock.ts";
import type { Database } from "../database/mod.ts";
import type { Log } from "../log.ts";
import { PARTITION_LOCK } from "./_partition_lock.ts";
import { firstMonthKept, type Retired, RetirementFailed, retireEvents } from "./retention.ts";

export interface Partitions {
  /** Makes what is missing now and then every hour. */
  start(): Promise<void>;
  stop(): void;
  /** Deletes what every process has read of the changes to counts; done every quarter of a minute. */
  clean(): Promise<void>;
  /** Makes what is missing and drops what is too old now, instead of within the hour. */
  tidy(): Promise<void>;
  stats(): PartitionsStats;
}

export interface PartitionsStats {
  /** For how many months events are kept; 0 is forever. */
  readonly kept: number;
  readonly dropped: number;
  readonly deleted: number;
  readonly failures: number;
}

export interface PartitionsOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly log: Log;
  /** For how many months events are kept; 0, the default, is forever. */
  readonly keptMonths?: number;
}

const MONTHS_AHEAD = 2;
const INTERVAL_MS = 3_600_000;
const FIRST_RETIREMENT_MS = 30_000;
/** Rows of `usage_changes` older than this have been read by every pulse that is trusted. */
const CHANGES_KEPT_SECONDS = 60;
/** For so long an `Idempotency-Key` stands for its event. */
const CLAIMS_KEPT_MS = 24 * 3_600_000;
const CLEANING_INTERVAL_MS = 15_000;

export function createPartitions({ database, clock, log, keptMonths = 0 }: PartitionsOptions): Partitions {
  const timers: ReturnType<typeof setInterval>[] = [];
  let dropped = 0;
  let deleted = 0;
  let failures = 0;
  let stopping = false;

  async function makeAhead() {
    const month = monthOf(clock.now().getTime());
    for (let ahead = 0; ahead <= MONTHS_AHEAD; ahead++) {
      await attach(database, toMonth(month.index + ahead)).catch((error) => {
        failures++;
        log.warn("Could not make a month's partition of events: it is tried again within the hour", {
          month: toMonth(month.index + ahead).firstDay,
          reason: String(error),
        });
      });
    }
  }

  async function retire() {
    if (keptMonths === 0 || stopping) return;
    const from = firstMonthKept(monthOf(clock.now().getTime()), keptMonths);
    try {
      note(await retireEvents(database, { from, isStopping: () => stopping }));
    } catch (error) {
      if (error instanceof RetirementFailed) note(error.retired);
      failures++;
      log.warn("Could not drop all events that are too old: it is tried again within the hour", {
        before: from.firstDay,
        reason: String(error),
      });
    }
  }

  function note({ months, deleted: rows }: Retired) {
    dropped += months.length;
    deleted += rows;
    for (const month of months) log.info("Dropped a month of events", { month, kept_months: keptMonths });
    if (rows > 0) log.info("Deleted old events that lay in no month's partition", { events: rows });
  }

  async function tidy() {
    await makeAhead();
    await retire();
  }

  async function clean() {
    await database
      .query(
        (sql) => sql`
          with old_changes as (
            delete from usage_changes where written_at < now() - ${CHANGES_KEPT_SECONDS} * interval '1 second'
          )
          delete from claims where claimed_at < ${new Date(clock.now().getTime() - CLAIMS_KEPT_MS)}::timestamptz`,
      )
      .catch(() => {}); // The database is away: the pulse tells of it, and the next round cleans.
  }

  return {
    clean,
    async start() {
      await makeAhead();
      timers.push(setInterval(tidy, INTERVAL_MS), setInterval(clean, CLEANING_INTERVAL_MS));
      // Nobody waits for it: a start is not the time at which events must go.
      timers.push(setTimeout(retire, FIRST_RETIREMENT_MS));
    },
    stop() {
      stopping = true;
      for (const timer of timers) clearInterval(timer);
    },
    tidy,
    stats: () => ({ kept: keptMonths, dropped, deleted, failures }),
  };
}

/** Makes and attaches a month's partition where there is none, in one statement of its own. */
export async function attach(database: Pick<Database, "query">, month: Month): Promise<void> {
  const name = `events_${month.firstDay.slice(0, 7).replace("-", "_")}`;
  const until = toMonth(month.index + 1).firstDay;
  // A `do` block is one statement, and takes no parameters: everything in it is made of digits.
  await database.query((sql) =>
    sql.unsafe(`
      do $$
      begin
        perform set_config('lock_timeout', '1s', true);
        -- Processes that start together take turns.
        perform pg_advisory_xact_lock(${PARTITION_LOCK});
        if exists (select from pg_inherits where inhrelid = to_regclass('${name}')) then return; end if;
        create table if not exists ${name} (like events including defaults including constraints);
        -- What came while there was none, or a table with such rows could never be attached.
        lock table events_elsewhen in access exclusive mode;
        with late as (
          delete from events_elsewhen
           where received_at >= '${month.firstDay}T00:00:00Z' and received_at < '${until}T00:00:00Z'
          returning *
        )
        insert into ${name} select * from late;
        alter table events attach partition ${name}
          for values from ('${month.firstDay}T00:00:00Z') to ('${until}T00:00:00Z');
        -- An index on an empty table begins with a filter for its first pages. Each event that comes there would
        -- be written into it at once, for 0.2 ms; without one they wait for vacuum like those of all other pages.
        perform brin_desummarize_range(indexrelid, 0)
           from pg_index
           join pg_class on pg_class.oid = indexrelid
           join pg_am on pg_am.oid = relam
          where indrelid = to_regclass('${name}') and amname = 'brin';
      end
      $$`),
  );
}

/**
 * Events lie in a partition a month. Partitions are made ahead, and an event for whose month there is none
 * goes to `events_elsewhen`.
 *
 * `create table … partition of` would wait behind a backup's lock with every insert queued behind it; so
 * the table is made alone and attached under a short lock timeout. What fails is tried again later.
 */
import { type Month, monthOf, toMonth } from "../calendar.ts";
import type { Clock } from "../clock.ts";
import type { Database } from "../database/mod.ts";
import type { Log } from "../log.ts";

export interface Partitions {
  /** Makes what is missing now and then every hour. */
  start(): Promise<void>;
  stop(): void;
}

export interface PartitionsOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly log: Log;
}

const MONTHS_AHEAD = 2;
const INTERVAL_MS = 3_600_000;
/** Rows of `usage_changes` older than this have been read by every pulse that is trusted. */
const CHANGES_KEPT_SECONDS = 60;
const CLEANING_INTERVAL_MS = 15_000;

export function createPartitions({ database, clock, log }: PartitionsOptions): Partitions {
  const timers: ReturnType<typeof setInterval>[] = [];

  async function makeAhead() {
    const month = monthOf(clock.now().getTime());
    for (let ahead = 0; ahead <= MONTHS_AHEAD; ahead++) {
      await attach(database, toMonth(month.index + ahead)).catch((error) => {
        log.warn("Could not make a month's partition of events: it is tried again within the hour", {
          month: toMonth(month.index + ahead).firstDay,
          reason: String(error),
        });
      });
    }
  }

  async function clean() {
    await database
      .query(
        (sql) => sql`
          delete from usage_changes where written_at < now() - ${CHANGES_KEPT_SECONDS} * interval '1 second'`,
      )
      .catch(() => {}); // The database is away: the pulse tells of it, and the next round cleans.
  }

  return {
    async start() {
      await makeAhead();
      timers.push(setInterval(makeAhead, INTERVAL_MS), setInterval(clean, CLEANING_INTERVAL_MS));
    },
    stop() {
      for (const timer of timers) clearInterval(timer);
    },
  };
}

/** Makes and attaches a month's partition where there is none, in one statement of its own. */
async function attach(database: Database, month: Month): Promise<void> {
  const name = `events_${month.firstDay.slice(0, 7).replace("-", "_")}`;
  const until = toMonth(month.index + 1).firstDay;
  // A `do` block is one statement, and takes no parameters: everything in it is made of digits.
  await database.query((sql) =>
    sql.unsafe(`
      do $$
      begin
        if exists (select from pg_inherits where inhrelid = to_regclass('${name}')) then return; end if;
        perform set_config('lock_timeout', '1s', true);
        create table if not exists ${name} (like events including defaults including constraints);
        alter table events attach partition ${name}
          for values from ('${month.firstDay}T00:00:00Z') to ('${until}T00:00:00Z');
      end
      $$`),
  );
}

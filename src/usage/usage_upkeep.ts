/**
 * The upkeep of the tables of usage: it creates partitions for the months ahead, moves late events into their month,
 * drops old months, deletes old claims and old changes to counts, removes the texts of erased accounts, and counts the use
 * per day.
 */
import { DAY_MS, HOUR_MS, monthOf, toMonth } from "../base/calendar.ts";
import type { TaskContext, UpkeepTask } from "../database/upkeep/mod.ts";
import { createSweep } from "./_sweep.ts";
import { countUse } from "./count_use.ts";
import { eraseTexts } from "./erase_texts.ts";
import { attach, findLateMonths, hasLateEvents } from "./partitions.ts";
import { retireEvents } from "./retention.ts";

export type UsageUpkeep = ReturnType<typeof createUsageUpkeep>;

const MONTHS_AHEAD = 2;
/** The start does not wait for the first round: moving and dropping events is not urgent. */
const HOURLY = { everyMs: HOUR_MS, firstMs: 30_000 };
const CLEANING_INTERVAL_MS = 15_000;
/** The first count waits until everything else has started. A new installation has no use per day before this count. */
const COUNTING = { everyMs: 60_000, firstMs: 5_000 };
/** Every trusted pulse has read the rows of `usage_changes` that are older than this. */
const CHANGES_KEPT_SECONDS = 60;
/** How long an `Idempotency-Key` stands for its event: of an event that was sent alone, and of one with a time of its own. */
const CLAIMS_KEPT_MS = { alone: DAY_MS, withTime: 8 * DAY_MS };
/** For how long late events wait for a lock: longer than most backups take. */
const LATE_PATIENCE_MS = 600_000;

/** Returns the tasks. Events are kept for `keptMonths` months; 0 means forever. */
export function createUsageUpkeep({ keptMonths }: { readonly keptMonths: number }) {
  let dropped = 0;

  async function dropOldMonths({ database, clock, log, isStopping }: TaskContext) {
    if (keptMonths === 0 || isStopping()) return;
    const onDropped = (month: string) => {
      dropped++;
      log.info("Dropped a month of events", { month, kept_months: keptMonths });
    };
    await retireEvents(database, { clock, keptMonths, onDropped, isStopping });
  }

  const tasks: readonly UpkeepTask[] = [
    {
      name: "partitions",
      ...HOURLY,
      atStart: true,
      failed: "Could not make a month's partition of events: it is tried again within the hour",
      run: makePartitions,
    },
    {
      name: "late_events",
      ...HOURLY,
      isLong: true,
      failed: "Could not move late events into their month: it is tried again within the hour",
      run: moveLateEvents,
    },
    {
      name: "retention",
      ...HOURLY,
      isLong: true,
      failed: "Could not drop all events that are too old: it is tried again within the hour",
      run: dropOldMonths,
    },
    {
      name: "claims",
      everyMs: CLEANING_INTERVAL_MS,
      failed: "Could not delete the Idempotency-Keys whose time is over: it is tried again",
      run: createSweep("claims", (sql, now) => {
        const before = (keptMs: number) => sql`${new Date(now.getTime() - keptMs)}::timestamptz`;
        return sql`claimed_at < case when occurred_at is null then ${before(CLAIMS_KEPT_MS.alone)}
                                     else ${before(CLAIMS_KEPT_MS.withTime)} end`;
      }),
    },
    {
      name: "usage_changes",
      everyMs: CLEANING_INTERVAL_MS,
      failed: "Could not delete old changes to counts: it is tried again",
      run: createSweep("usage_changes", (sql) => {
        return sql`written_at < now() - ${CHANGES_KEPT_SECONDS} * interval '1 second'`;
      }),
    },
    {
      name: "erasures",
      everyMs: CLEANING_INTERVAL_MS,
      failed: "Could not remove the texts of the events of erased accounts: it is tried again",
      run: eraseTexts,
    },
    {
      name: "usage_days",
      ...COUNTING,
      failed: "Could not count the use by day: it is tried again",
      run: ({ database, ...options }) => countUse(database, options),
    },
  ];
  /** For how many months events are kept (0 means forever), and how many months this process has dropped. */
  const stats = () => ({ kept: keptMonths, dropped });
  return { tasks, stats };
}

async function makePartitions({ database, clock, isStopping }: TaskContext): Promise<void> {
  const month = monthOf(clock.nowMs());
  for (let ahead = 0; ahead <= MONTHS_AHEAD && !isStopping(); ahead++) {
    const next = toMonth(month.index + ahead);
    // If late events must move into the partition, this takes long: the task `late_events` does it.
    if (!(await hasLateEvents(database, next))) await attach(database, next);
  }
}

async function moveLateEvents({ database, clock, log, isStopping }: TaskContext): Promise<void> {
  const month = monthOf(clock.nowMs());
  for (const late of await findLateMonths(database, toMonth(month.index + MONTHS_AHEAD + 1))) {
    if (isStopping()) return;
    await attach(database, late, { patienceMs: LATE_PATIENCE_MS });
    log.info("Moved late events into their month", { month: late.firstDay });
  }
}

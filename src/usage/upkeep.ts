/**
 * The upkeep of the tables of usage: it creates partitions for the months ahead, moves late events into their month,
 * drops old months, and deletes old claims and old changes to counts. It also runs the upkeep of operators, activity and
 * statistics, which the service passes in.
 *
 * Upkeep has its own connections, so that requests do not wait behind it. A task that fails does not prevent the
 * others. The failure is counted and, until the task succeeds, logged once for each reason; the task is tried again.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { DAY_MS, HOUR_MS, monthOf, toMonth } from "../calendar.ts";
import { type Clock, type Repetition, repeat } from "../clock.ts";
import {
  type Database,
  type DatabaseAddress,
  DatabaseUnavailable,
  type Fragment,
  openDatabase,
  type Sql,
} from "../database/mod.ts";
import type { Log } from "../log.ts";
import { reasonOf } from "../system_error.ts";
import { createSweep } from "./_sweep.ts";
import { attach, findLateMonths, hasLateEvents } from "./partitions.ts";
import { retireEvents } from "./retention.ts";

export interface Upkeep {
  /** Creates the missing partitions, and from then on runs every task when it is due. */
  start(): Promise<void>;
  /** Stops the tasks: the server cancels a statement in progress within a second. */
  stop(): Promise<void>;
  /**
   * Deletes old claims, changes to counts, rows of operators and counts of requests now, and counts use by day. Without
   * a call, claims and changes are deleted 15 seconds after the last time, rows of operators and counts of requests
   * after ten minutes, and use is counted after one minute.
   */
  clean(): Promise<void>;
  /** Creates partitions, moves late events and drops old months now. Without a call, this happens within the hour. */
  tidy(): Promise<void>;
  stats(): UpkeepStats;
}

export type UpkeepTask = keyof typeof TASKS;

export interface UpkeepStats {
  /** For how many months events are kept; 0 means forever. */
  readonly kept: number;
  readonly dropped: number;
  readonly failures: Readonly<Record<UpkeepTask, number>>;
}

export interface UpkeepOptions {
  readonly address: DatabaseAddress;
  readonly clock: Clock;
  readonly log: Log;
  /** For how many months events are kept; 0, the default, means forever. */
  readonly keptMonths?: number;
  /** Deletes login codes, sessions and stored answers that have ended. */
  readonly cleanOperators: Clean;
  /** Deletes counts of answered requests that are too old. */
  readonly cleanActivity: Clean;
  /** Adds the use since the last time to the use by day of all licenses. */
  readonly countUse: (
    database: Database,
    options: { readonly clock: Clock; readonly isStopping: () => boolean },
  ) => Promise<void>;
}

type Clean = (
  database: Database,
  options: { readonly now: Date; readonly isStopping: () => boolean },
) => Promise<void>;

/** The log message of each task when it fails. */
const TASKS = {
  partitions: "Could not make a month's partition of events: it is tried again within the hour",
  late_events: "Could not move late events into their month: it is tried again within the hour",
  retention: "Could not drop all events that are too old: it is tried again within the hour",
  claims: "Could not delete the Idempotency-Keys of the day before: it is tried again",
  usage_changes: "Could not delete old changes to counts: it is tried again",
  operators: "Could not delete old login codes, sessions and answers of operators: it is tried again",
  activity: "Could not delete old counts of requests: it is tried again",
  usage_days: "Could not count the use by day: it is tried again",
} as const;

const MONTHS_AHEAD = 2;
const TIDY_INTERVAL_MS = HOUR_MS;
/** The time from the start to the first round. The start does not wait for it: dropping events is not urgent. */
const FIRST_TIDY_MS = 30_000;
/** After a failure the next round comes earlier; the pauses after further failures double. */
const FIRST_RETRY_MS = 60_000;
const CLEANING_INTERVAL_MS = 15_000;
/** Rows of operators have no effect after their end, and there are few. Old counts of requests do no harm. */
const SELDOM_INTERVAL_MS = 600_000;
const COUNTING_INTERVAL_MS = 60_000;
/** Soon after the start, so that a new installation has statistics, and not while everything else starts. */
const FIRST_COUNTING_MS = 5_000;
/** For how long a stop waits for the end of a count, whose statements take less. */
const LAST_COUNT_MS = 150;
/** Every trusted pulse has read the rows of `usage_changes` that are older than this. */
const CHANGES_KEPT_SECONDS = 60;
/** How long an `Idempotency-Key` stands for its event. */
const CLAIMS_KEPT_MS = DAY_MS;
/** A batch takes milliseconds: a server that takes longer than this has a problem. */
const DEADLINE_MS = 10_000;
/** For the statements that move the events of a month or delete its files, each of which may take long. */
const LONG_DEADLINE_MS = 1_800_000;
/** For how long late events wait for a lock: longer than most backups take. */
const LATE_PATIENCE_MS = 600_000;

/** Creates the upkeep. One long function, because its tasks share the connection, the clock and the flag of the stop. */
export function createUpkeep(options: UpkeepOptions): Upkeep {
  const { address, clock, log, keptMonths = 0 } = options;
  const open = (deadlineMs: number) => openDatabase(address, { clock, log, maxConnections: 1, deadlineMs });
  const database = open(DEADLINE_MS);
  let stopping = false;
  const isStopping = () => stopping;
  const { attempt, failures } = createAttempts({ log, isStopping });
  const months = createMonths({ database, open, clock, log, keptMonths, attempt, isStopping });

  const sweep = (table: string, isOld: (sql: Sql) => Fragment) =>
    createSweep({ database, clock, table, isOld, isStopping });
  const sweepClaims = sweep(
    "claims",
    (sql) => sql`claimed_at < ${new Date(clock.nowMs() - CLAIMS_KEPT_MS)}::timestamptz`,
  );
  const sweepChanges = sweep(
    "usage_changes",
    (sql) => sql`written_at < now() - ${CHANGES_KEPT_SECONDS} * interval '1 second'`,
  );
  const cleanClaims = () => attempt("claims", sweepClaims);
  const cleanChanges = () => attempt("usage_changes", sweepChanges);
  const now = () => ({ now: clock.now(), isStopping });
  const cleanEnded = () => attempt("operators", () => options.cleanOperators(database, now()));
  const cleanActivity = () => attempt("activity", () => options.cleanActivity(database, now()));
  let counting: Promise<unknown> = Promise.resolve();
  const count = () => {
    const counted = attempt("usage_days", () => options.countUse(database, { clock, isStopping }));
    counting = counted;
    return counted;
  };

  let pauseMs = FIRST_RETRY_MS;
  async function tidyInTurn(): Promise<number> {
    const isDone = await months.tidy();
    const nextMs = isDone ? TIDY_INTERVAL_MS : pauseMs;
    pauseMs = isDone ? FIRST_RETRY_MS : Math.min(2 * pauseMs, TIDY_INTERVAL_MS);
    return nextMs;
  }

  let repetitions: readonly Repetition[] = [];
  return {
    async start() {
      await months.makeAhead();
      if (stopping) return;
      const every = (intervalMs: number, work: () => Promise<boolean>, firstMs = intervalMs) =>
        repeat(firstMs, () => work().then(() => intervalMs));
      const cleaning = [
        every(CLEANING_INTERVAL_MS, cleanClaims),
        every(CLEANING_INTERVAL_MS, cleanChanges),
        every(SELDOM_INTERVAL_MS, cleanEnded),
        every(SELDOM_INTERVAL_MS, cleanActivity),
        every(COUNTING_INTERVAL_MS, count, FIRST_COUNTING_MS),
      ];
      repetitions = [repeat(FIRST_TIDY_MS, tidyInTurn), ...cleaning];
    },
    async stop() {
      stopping = true;
      for (const repetition of repetitions) repetition.stop();
      // Another process cannot count before this one says that it has ended.
      await Promise.race([counting, sleep(LAST_COUNT_MS, undefined, { ref: false })]);
      await Promise.all([database.close(), months.close()]);
    },
    async clean() {
      await cleanClaims();
      await cleanChanges();
      await cleanEnded();
      await cleanActivity();
      await count();
    },
    async tidy() {
      await months.tidy();
    },
    stats: () => ({ kept: keptMonths, dropped: months.dropped(), failures: { ...failures } }),
  };
}

interface Attempts {
  readonly failures: Readonly<Record<UpkeepTask, number>>;
  /** Runs a task and tells whether it succeeded. */
  attempt(task: UpkeepTask, work: () => Promise<void>): Promise<boolean>;
}

function createAttempts({
  log,
  isStopping,
}: {
  readonly log: Log;
  readonly isStopping: () => boolean;
}): Attempts {
  const failures = {
    partitions: 0,
    late_events: 0,
    retention: 0,
    claims: 0,
    usage_changes: 0,
    operators: 0,
    activity: 0,
    usage_days: 0,
  };
  /** For each task, the reasons that were logged since it last succeeded. */
  const told = new Map<UpkeepTask, Set<string>>();
  return {
    failures,
    async attempt(task, work) {
      try {
        await work();
      } catch (error) {
        if (isStopping()) return false;
        failures[task]++;
        // The database's own message, if there is one.
        const reason = reasonOf(error instanceof DatabaseUnavailable ? (error.cause ?? error) : error);
        const reasons = told.get(task) ?? new Set();
        if (!reasons.has(reason)) log.warn(TASKS[task], { task, reason });
        told.set(task, reasons.add(reason));
        return false;
      }
      if (!isStopping() && told.delete(task))
        log.info("An upkeep task that had failed has succeeded", { task });
      return true;
    },
  };
}

interface MonthsOptions extends Pick<Attempts, "attempt"> {
  readonly database: Database;
  readonly open: (deadlineMs: number) => Database;
  readonly clock: Clock;
  readonly log: Log;
  readonly keptMonths: number;
  readonly isStopping: () => boolean;
}

/** Returns the tasks that create, fill and drop the partitions of months. */
function createMonths({ database, open, clock, log, keptMonths, attempt, isStopping }: MonthsOptions) {
  let longRunning: Database | undefined;
  let dropped = 0;

  async function makeAhead() {
    const month = monthOf(clock.nowMs());
    for (let ahead = 0; ahead <= MONTHS_AHEAD && !isStopping(); ahead++) {
      const next = toMonth(month.index + ahead);
      // If late events must move into the partition, it takes long: the next task creates it.
      if (!(await hasLateEvents(database, next))) await attach(database, next);
    }
  }

  async function moveLate(long: Database) {
    const month = monthOf(clock.nowMs());
    for (const late of await findLateMonths(long, toMonth(month.index + MONTHS_AHEAD + 1))) {
      if (isStopping()) return;
      await attach(long, late, { patienceMs: LATE_PATIENCE_MS });
      log.info("Moved late events into their month", { month: late.firstDay });
    }
  }

  async function retire(long: Database) {
    if (keptMonths === 0 || isStopping()) return;
    const onDropped = (month: string) => {
      dropped++;
      log.info("Dropped a month of events", { month, kept_months: keptMonths });
    };
    await retireEvents(long, { clock, keptMonths, onDropped, isStopping });
  }

  return {
    makeAhead: () => attempt("partitions", makeAhead),
    /** Runs the three tasks and tells whether all of them succeeded. */
    async tidy(): Promise<boolean> {
      const long = open(LONG_DEADLINE_MS);
      longRunning = long;
      try {
        // Makes the server cancel a statement when its connection closes. If it cannot, the statement runs to its end.
        await long
          .query((sql) => sql`select set_config('client_connection_check_interval', '1s', false)`)
          .catch(() => {});
        const made = await attempt("partitions", makeAhead);
        const moved = await attempt("late_events", () => moveLate(long));
        const retired = await attempt("retention", () => retire(long));
        return made && moved && retired;
      } finally {
        await long.close();
      }
    },
    /** Ends a task in progress. */
    close: async () => longRunning?.close(),
    dropped: () => dropped,
  };
}

/**
 * What has to be done again and again so that the tables of usage stay well: partitions for the months ahead,
 * late events moved into their month, old months dropped, old claims and changes to counts deleted.
 *
 * It has connections of its own, so that nothing on the serving path waits behind it. A task that fails does not
 * keep the others from being done. The failure is counted and, until the task succeeds, logged once for each reason;
 * the task is tried again.
 */
import { monthOf, toMonth } from "../calendar.ts";
import { type Clock, type Repetition, repeat } from "../clock.ts";
import { type Database, type DatabaseAddress, DatabaseUnavailable, openDatabase } from "../database/mod.ts";
import type { Log } from "../log.ts";
import { reasonOf } from "../system_error.ts";
import { createSweep } from "./_sweep.ts";
import { attach, findLateMonths, hasLateEvents } from "./partitions.ts";
import { retireEvents } from "./retention.ts";

export interface Upkeep {
  /** Makes the partitions that are missing, and from then on does every task when it is due. */
  start(): Promise<void>;
  /** Ends what is under way: the server gives up a statement within a second. */
  stop(): Promise<void>;
  /** Deletes old claims and changes to counts now; otherwise a quarter of a minute after the last time. */
  clean(): Promise<void>;
  /** Makes partitions, moves late events and drops old months now; otherwise within the hour. */
  tidy(): Promise<void>;
  stats(): UpkeepStats;
}

export type UpkeepTask = keyof typeof TASKS;

export interface UpkeepStats {
  /** For how many months events are kept; 0 is forever. */
  readonly kept: number;
  readonly dropped: number;
  readonly failures: Readonly<Record<UpkeepTask, number>>;
}

export interface UpkeepOptions {
  readonly address: DatabaseAddress;
  readonly clock: Clock;
  readonly log: Log;
  /** For how many months events are kept; 0, the default, is forever. */
  readonly keptMonths?: number;
}

/** Each task with its sentence for when it fails. */
const TASKS = {
  partitions: "Could not make a month's partition of events: it is tried again within the hour",
  late_events: "Could not move late events into their month: it is tried again within the hour",
  retention: "Could not drop all events that are too old: it is tried again within the hour",
  claims: "Could not delete the Idempotency-Keys of the day before: it is tried again",
  usage_changes: "Could not delete old changes to counts: it is tried again",
} as const;

const MONTHS_AHEAD = 2;
const TIDY_INTERVAL_MS = 3_600_000;
/** Nobody waits for it: a start is not the time at which events must go. */
const FIRST_TIDY_MS = 30_000;
/** After a failure the next round comes earlier, and then after pauses that double. */
const FIRST_RETRY_MS = 60_000;
const CLEANING_INTERVAL_MS = 15_000;
/** Rows of `usage_changes` older than this have been read by every pulse that is trusted. */
const CHANGES_KEPT_SECONDS = 60;
/** For so long an `Idempotency-Key` stands for its event. */
const CLAIMS_KEPT_MS = 24 * 3_600_000;
/** A batch takes milliseconds: a server that takes so long is in trouble. */
const DEADLINE_MS = 10_000;
/** Moving a month's events, or unlinking its files, is one statement. */
const LONG_DEADLINE_MS = 1_800_000;
/** Longer than most backups take. */
const LATE_PATIENCE_MS = 600_000;

export function createUpkeep({ address, clock, log, keptMonths = 0 }: UpkeepOptions): Upkeep {
  const open = (deadlineMs: number) => openDatabase(address, { clock, log, maxConnections: 1, deadlineMs });
  const database = open(DEADLINE_MS);
  let stopping = false;
  const isStopping = () => stopping;
  const { attempt, failures } = createAttempts({ log, isStopping });
  const months = createMonths({ database, open, clock, log, keptMonths, attempt, isStopping });

  const sweepClaims = createSweep({
    database,
    clock,
    table: "claims",
    isOld: (sql) => sql`claimed_at < ${new Date(clock.nowMs() - CLAIMS_KEPT_MS)}::timestamptz`,
    isStopping,
  });
  const sweepChanges = createSweep({
    database,
    clock,
    table: "usage_changes",
    isOld: (sql) => sql`written_at < now() - ${CHANGES_KEPT_SECONDS} * interval '1 second'`,
    isStopping,
  });
  const cleanClaims = () => attempt("claims", sweepClaims);
  const cleanChanges = () => attempt("usage_changes", sweepChanges);

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
      const cleaning = [cleanClaims, cleanChanges].map((clean) =>
        repeat(CLEANING_INTERVAL_MS, async () => {
          await clean();
          return CLEANING_INTERVAL_MS;
        }),
      );
      repetitions = [repeat(FIRST_TIDY_MS, tidyInTurn), ...cleaning];
    },
    async stop() {
      stopping = true;
      for (const repetition of repetitions) repetition.stop();
      await Promise.all([database.close(), months.close()]);
    },
    async clean() {
      await cleanClaims();
      await cleanChanges();
    },
    async tidy() {
      await months.tidy();
    },
    stats: () => ({ kept: keptMonths, dropped: months.dropped(), failures: { ...failures } }),
  };
}

interface Attempts {
  readonly failures: Readonly<Record<UpkeepTask, number>>;
  /** Does a task, and tells whether it succeeded. */
  attempt(task: UpkeepTask, work: () => Promise<void>): Promise<boolean>;
}

function createAttempts({
  log,
  isStopping,
}: {
  readonly log: Log;
  readonly isStopping: () => boolean;
}): Attempts {
  const failures = { partitions: 0, late_events: 0, retention: 0, claims: 0, usage_changes: 0 };
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
        // The database's own words, where it said any.
        const reason = reasonOf(error instanceof DatabaseUnavailable ? (error.cause ?? error) : error);
        const reasons = told.get(task) ?? new Set();
        if (!reasons.has(reason)) log.warn(TASKS[task], { task, reason });
        told.set(task, reasons.add(reason));
        return false;
      }
      if (!isStopping() && told.delete(task))
        log.info("An upkeep task that had failed is done again", { task });
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

/** The tasks that make, fill and drop the partition of a month. */
function createMonths({ database, open, clock, log, keptMonths, attempt, isStopping }: MonthsOptions) {
  let longRunning: Database | undefined;
  let dropped = 0;

  async function makeAhead() {
    const month = monthOf(clock.nowMs());
    for (let ahead = 0; ahead <= MONTHS_AHEAD && !isStopping(); ahead++) {
      const next = toMonth(month.index + ahead);
      // A partition that late events move into takes long, and is made by the next task.
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
    /** Tells whether all of it succeeded. */
    async tidy(): Promise<boolean> {
      const long = open(LONG_DEADLINE_MS);
      longRunning = long;
      try {
        // The server then ends a statement whose connection is closed; where it cannot, the statement runs to its end.
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
    /** Ends what is under way. */
    close: async () => longRunning?.close(),
    dropped: () => dropped,
  };
}

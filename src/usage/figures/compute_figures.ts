/**
 * Computes the stored figures when someone asks for them, for all processes.
 *
 * With a million keys this takes seconds, so no request waits for it: a request demands new figures and gets the
 * figures that were computed last. A row of the database tells when the last computation began and how long it took. So
 * one process at a time computes, and the next computation begins at least twenty times this duration after the last
 * one began. A computation has a connection of its own, which is open only during the computation.
 */
import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/log.ts";
import { type Database, type DatabaseAddress, openDatabase, renderFailureCause } from "../../database/mod.ts";
import { STATEMENTS } from "./_figure_statements.ts";
import { FIGURES, type Figures, readFigures } from "./figures.ts";

export type FigureComputer = ReturnType<typeof createFigureComputer>;

interface FigureComputerOptions {
  readonly address: DatabaseAddress;
  readonly clock: Clock;
  readonly log: Log;
}

/** The time from the start of a computation to the start of the next one is at least this many times its duration. */
const PAUSE_FACTOR = 20;
/** This time is at least so long, in all processes together. */
const MIN_PAUSE_MS = 10_000;
/** How often a process asks the database whether figures are due. */
const LOOK_PAUSE_MS = 5_000;
const STATEMENT_TIMEOUT_MS = 60_000;
/** The server's limit is nine tenths of a deadline. */
const DEADLINE_MS = STATEMENT_TIMEOUT_MS / 0.9;
/** A computation that has not ended after this time belongs to a process that was killed. */
const ABANDONED_MS = Math.ceil(FIGURES.length * DEADLINE_MS);
/** A stop has little time. */
const LAST_DEADLINE_MS = 1_000;

export function createFigureComputer({ address, clock, log }: FigureComputerOptions) {
  let running: Promise<void> | undefined;
  let database: Database | undefined;
  let lookedMs = Number.NEGATIVE_INFINITY;
  let isStopping = false;
  let isFailing = false;
  let latest: Figures | undefined;
  /** How long the last computation of this process took, until the database knows it. */
  let tookMs: number | undefined;

  async function refresh() {
    await using own = open(DEADLINE_MS);
    database = own;
    try {
      await endLast(own);
      if (await takeRun(own, clock)) await compute(own);
      latest = await readFigures(own);
      isFailing = false;
    } catch (error) {
      const reason = renderFailureCause(error);
      if (!isStopping && !isFailing)
        log.warn("Could not compute the stored figures: those that were computed last stay", { reason });
      isFailing = true;
    }
  }

  async function compute(own: Database) {
    const beganMs = clock.monotonicMs();
    try {
      await computeFigures(own, { clock });
    } finally {
      // Also after a failure: the next attempt must not come sooner.
      tookMs = clock.monotonicMs() - beganMs;
      await endLast(own);
    }
  }

  /** Without it, all processes would wait until the computation is taken for abandoned. */
  async function endLast(own: Database) {
    const lastMs = tookMs;
    if (lastMs === undefined) return;
    await own.query((sql) => sql`update figure_run set took_ms = ${lastMs}::double precision`);
    tookMs = undefined;
  }

  function open(deadlineMs: number) {
    return openDatabase(address, { clock, log, maxConnections: 1, deadlineMs });
  }

  return {
    /** Has the figures computed if they are due. Returns at once. */
    demand(): void {
      if (isStopping || running !== undefined || clock.monotonicMs() - lookedMs < LOOK_PAUSE_MS) return;
      lookedMs = clock.monotonicMs();
      running = refresh().finally(() => {
        running = undefined;
      });
    },
    /** Resolves when a computation that was demanded in this process has ended. */
    settled: async () => running,
    /** The figures as this process saw them after its last demand; undefined before the first. */
    latest: () => latest,
    /** Ends a computation in progress. */
    async stop(): Promise<void> {
      isStopping = true;
      await database?.close();
      await running;
      if (tookMs === undefined) return;
      await using last = open(LAST_DEADLINE_MS);
      await endLast(last).catch(() => {});
    },
  };
}

/**
 * Computes the figures if they are due, and waits for the end, or until `interrupted` resolves. For commands: no
 * service has to run.
 */
export async function refreshFigures(
  options: FigureComputerOptions,
  interrupted: Promise<unknown>,
): Promise<void> {
  const computer = createFigureComputer(options);
  computer.demand();
  await Promise.race([computer.settled(), interrupted]);
  await computer.stop();
}

/**
 * Computes and stores all figures now, one statement for each. Takes seconds with a million keys. The database must be
 * a pool of one connection for this alone: its settings stay with the connection.
 */
export async function computeFigures(
  database: Database,
  { clock }: { readonly clock: Clock },
): Promise<void> {
  // Parallel workers would take the cores of the clients' requests. Every statement reads whole tables, and a table
  // that is empty by the statistics of vacuum would be read again for each key (`enable_nestloop`).
  await database.query(
    (sql) => sql`
      select set_config('max_parallel_workers_per_gather', '0', false), set_config('work_mem', '64MB', false),
             set_config('enable_nestloop', 'off', false)`,
  );
  for (const name of FIGURES) await database.query((sql) => STATEMENTS[name](sql, clock.now()));
}

/** Tells whether this process is to compute the figures now. Then no other process gets the same answer. */
async function takeRun(database: Database, clock: Clock): Promise<boolean> {
  // A time far ahead was written by a clock that was wrong.
  const taken = await database.query(
    (sql) => sql`
      insert into figure_run as run (began_at) values (${clock.now()}::timestamptz)
      on conflict (is_only) do update set began_at = excluded.began_at, took_ms = null
        where excluded.began_at - run.began_at not between interval '-1 hour' and interval '1 millisecond'
                * case when run.took_ms is null then ${ABANDONED_MS}::integer
                       else greatest(run.took_ms * ${PAUSE_FACTOR}::integer, ${MIN_PAUSE_MS}::integer) end
      returning true as taken`,
  );
  return taken.length > 0;
}

/**
 * Repeats the tasks of the rooms.
 *
 * Upkeep has its own connections, so that requests do not wait behind it. A task that fails does not prevent the
 * others. The failure is counted and, until the task succeeds, logged once for each reason; the task is tried again.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Clock, type Repetition, repeat } from "../../base/clock.ts";
import type { Log } from "../../base/log.ts";
import { type Database, type DatabaseAddress, openDatabase, renderFailureCause } from "../mod.ts";
import type { TaskContext, UpkeepTask } from "./task.ts";

export type Upkeep = ReturnType<typeof createUpkeep>;

interface UpkeepOptions {
  readonly address: DatabaseAddress;
  readonly clock: Clock;
  readonly log: Log;
  readonly tasks: readonly UpkeepTask[];
}

/** After a failure the next run comes earlier; the pauses after further failures double. */
const FIRST_RETRY_MS = 60_000;
/** Most statements take milliseconds: a server that takes longer than this has a problem. */
const DEADLINE_MS = 10_000;
/** For the statements of long tasks: moving the events of a month, or deleting its files. */
const LONG_DEADLINE_MS = 1_800_000;
/** For how long a stop waits for tasks that are running, so that they can end in order. Most statements are shorter. */
const LAST_RUNS_MS = 150;

export function createUpkeep({ address, clock, log, tasks }: UpkeepOptions) {
  const open = (deadlineMs: number) => openDatabase(address, { clock, log, maxConnections: 1, deadlineMs });
  const database = open(DEADLINE_MS);
  let stopping = false;
  const isStopping = () => stopping;
  let longRunning: Database | undefined;
  let lastLong: Promise<void> = Promise.resolve();

  async function runLong(task: UpkeepTask) {
    if (stopping) return;
    await using long = open(LONG_DEADLINE_MS);
    longRunning = long;
    // Makes the server cancel a statement when its connection closes. If it cannot, the statement runs to its end.
    await long
      .query((sql) => sql`select set_config('client_connection_check_interval', '1s', false)`)
      .catch(() => {});
    await task.run({ database: long, clock, log, isStopping });
  }

  function run(task: UpkeepTask): Promise<void> {
    if (!task.isLong) return task.run({ database, clock, log, isStopping });
    const turn = lastLong.then(() => runLong(task));
    lastLong = turn.catch(() => {});
    return turn;
  }

  const running = new Set<Promise<unknown>>();
  const watched = tasks.map((task) => {
    const watch = watchTask(task, { log, isStopping, run: () => run(task) });
    const attempt = () => {
      const attempted = watch.attempt().finally(() => running.delete(attempted));
      running.add(attempted);
      return attempted;
    };
    return { task, failures: watch.failures, attempt };
  });

  let repetitions: readonly Repetition[] = [];
  return {
    /** Runs the tasks that the start waits for, and from then on every task when it is due. */
    async start() {
      await Promise.all(watched.filter(({ task }) => task.atStart).map(({ attempt }) => attempt()));
      if (stopping) return;
      repetitions = watched.map(({ task, attempt }) => repeat(task.firstMs ?? task.everyMs, attempt));
    },
    /** Stops the tasks: the server cancels a statement in progress within a second. */
    async stop() {
      stopping = true;
      for (const repetition of repetitions) repetition.stop();
      await Promise.race([Promise.all(running), sleep(LAST_RUNS_MS, undefined, { ref: false })]);
      await Promise.all([database.close(), longRunning?.close()]);
    },
    /** Runs every task now, in the order of the list. */
    async runAll() {
      for (const { attempt } of watched) await attempt();
    },
    /** How often each task has failed, by its name. */
    stats: () => ({
      failures: Object.fromEntries(watched.map(({ task, failures }) => [task.name, failures()])),
    }),
  };
}

interface WatchOptions extends Pick<TaskContext, "log" | "isStopping"> {
  readonly run: () => Promise<void>;
}

/** Counts and logs the failures of a task. */
function watchTask({ name, failed, everyMs }: UpkeepTask, { log, isStopping, run }: WatchOptions) {
  let failures = 0;
  let retryMs = FIRST_RETRY_MS;
  /** The reasons that were logged since the task last succeeded. */
  const reasons = new Set<string>();
  return {
    failures: () => failures,
    /** Runs the task, and returns the pause until the next run. */
    async attempt(): Promise<number> {
      try {
        await run();
      } catch (error) {
        if (isStopping()) return everyMs;
        failures++;
        const reason = renderFailureCause(error);
        if (!reasons.has(reason)) log.warn(failed, { task: name, reason });
        reasons.add(reason);
        const pauseMs = Math.min(retryMs, everyMs);
        retryMs = Math.min(2 * retryMs, everyMs);
        return pauseMs;
      }
      retryMs = FIRST_RETRY_MS;
      if (!isStopping() && reasons.size > 0)
        log.info("An upkeep task that had failed has succeeded", { task: name });
      reasons.clear();
      return everyMs;
    },
  };
}

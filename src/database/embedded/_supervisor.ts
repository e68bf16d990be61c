/**
 * Keeps PostgreSQL running. When the server ends unexpectedly, its remaining processes are stopped and it is started
 * again, with exponential backoff.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { reasonOf } from "../../system_error.ts";
import { type PostmasterOptions, startPostmaster } from "./_postmaster.ts";
import { stopLeftovers } from "./leftovers.ts";

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5000;
/** After running for this time, the next end counts as the first one again. */
const STEADY_MS = 30_000;

export interface EmbeddedState {
  readonly state: "ready" | "restarting" | "stopped";
  /** The process id of the postmaster while it is ready. */
  readonly pid: number | undefined;
  /** How often the server was started again. */
  readonly restarts: number;
  /** Why the server last ended or did not start, as one line. */
  readonly lastFailure: string | undefined;
}

export interface Supervisor {
  /** Stops the server: in order until the deadline, then by force. */
  stop(deadlineMs: number): Promise<void>;
  check(): EmbeddedState;
}

export interface SuperviseOptions extends Omit<PostmasterOptions, "isStopping"> {
  readonly isInterrupted: () => boolean;
}

/** Starts the server and keeps it running; rejects if the first start fails. */
export async function supervise(options: SuperviseOptions): Promise<Supervisor> {
  const { cluster, clock, log } = options;
  const stopping = new AbortController();
  const isStopping = () => stopping.signal.aborted || options.isInterrupted();
  let state: EmbeddedState = { state: "restarting", pid: undefined, restarts: 0, lastFailure: undefined };

  const start = async () => {
    try {
      const postmaster = await startPostmaster({ ...options, isStopping });
      state = { ...state, state: "ready", pid: postmaster.pid };
      return postmaster;
    } catch (error) {
      await stopLeftovers({ cluster, clock, graceMs: 0 });
      throw error;
    }
  };

  const keepRunning = async (first: Awaited<ReturnType<typeof start>>) => {
    let postmaster: typeof first | undefined = first;
    let pauseMs = FIRST_PAUSE_MS;
    let failure = "";
    while (!isStopping()) {
      if (postmaster !== undefined) {
        const readyAt = clock.monotonicMs();
        failure = await postmaster.ended;
        if (clock.monotonicMs() - readyAt > STEADY_MS) pauseMs = FIRST_PAUSE_MS;
        if (isStopping()) return;
      }
      state = { ...state, state: "restarting", pid: undefined, lastFailure: failure };
      log.error("PostgreSQL ended by itself and is started again", { pauseMs, failure });
      await sleep(pauseMs, undefined, { signal: stopping.signal }).catch(() => {});
      if (isStopping()) return;
      pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
      try {
        await stopLeftovers({ cluster, clock, graceMs: 0 });
        if (isStopping()) return;
        postmaster = await start();
        state = { ...state, restarts: state.restarts + 1 };
        log.info("PostgreSQL is running again", { pid: postmaster.pid });
      } catch (error) {
        postmaster = undefined;
        failure = reasonOf(error);
      }
    }
  };

  const running = keepRunning(await start());

  return {
    async stop(deadlineMs) {
      stopping.abort();
      try {
        await stopLeftovers({ cluster, clock, graceMs: deadlineMs });
      } finally {
        // A start that is in progress sees `isStopping` and ends itself.
        await running;
      }
      state = { ...state, state: "stopped", pid: undefined };
    },
    check: () => state,
  };
}

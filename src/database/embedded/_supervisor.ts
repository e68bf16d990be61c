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

export interface SuperviseOptions extends Omit<PostmasterOptions, "isStopping"> {
  readonly isInterrupted: () => boolean;
}

/** Starts the server and keeps it running; rejects if the first start fails. */
export async function supervise(options: SuperviseOptions) {
  const { cluster, clock, log } = options;
  const stopping = new AbortController();
  const isStopping = () => stopping.signal.aborted || options.isInterrupted();

  const start = async () => {
    try {
      return await startPostmaster({ ...options, isStopping });
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
      log.error("PostgreSQL ended by itself and is started again", { pauseMs, failure });
      await sleep(pauseMs, undefined, { signal: stopping.signal }).catch(() => {});
      if (isStopping()) return;
      pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
      try {
        await stopLeftovers({ cluster, clock, graceMs: 0 });
        if (isStopping()) return;
        postmaster = await start();
        log.info("PostgreSQL is running again", { pid: postmaster.pid });
      } catch (error) {
        postmaster = undefined;
        failure = reasonOf(error);
      }
    }
  };

  const running = keepRunning(await start());

  return {
    /** Stops the server: in order until the deadline, then by force. */
    async stop(deadlineMs: number): Promise<void> {
      stopping.abort();
      try {
        await stopLeftovers({ cluster, clock, graceMs: deadlineMs });
      } finally {
        // A start that is in progress sees `isStopping` and ends itself.
        await running;
      }
    },
  };
}

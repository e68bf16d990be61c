/**
 * Keeps PostgreSQL running. When the server ends unexpectedly, its remaining processes are stopped and it is started
 * again, with exponential backoff.
 *
 * Once a second it looks whether the folder of the cluster is there. Without its folder PostgreSQL goes on for a minute
 * and acknowledges what will be lost. So it is ended at once, and started again if the folder comes back. If it does
 * not come back, or the data is damaged, no further start can help, and the service has to end.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Refusal } from "../../base/refusal.ts";
import { reasonOf } from "../../base/system_error.ts";
import { DatabaseUnavailable } from "../errors.ts";
import { DamagedData, type DataFault, watchFolder } from "./_data_fault.ts";
import type { Layout } from "./_layout.ts";
import { type PostmasterOptions, startPostmaster } from "./_postmaster.ts";
import { goneData, refuseDamaged, replacedData } from "./_refusals.ts";
import { stopLeftovers } from "./leftovers.ts";

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5000;
/** After running for this time, the next end counts as the first one again. */
const STEADY_MS = 30_000;
/** How often it looks whether the folder is there. */
const LOOK_MS = 1_000;
/** How often it looks whether a folder that went away has come back, and for how long. */
const WAIT_MS = 200;
const GONE_MS = 60_000;
/** How long a failed start waits for the last lines of the server. */
const LAST_LINES_MS = 1_000;

interface SuperviseOptions extends Omit<PostmasterOptions, "isStopping" | "onDamage" | "cluster"> {
  readonly layout: Layout;
  readonly isInterrupted: () => boolean;
}

/** Starts the server and keeps it running; rejects if the first start fails. */
export async function supervise(options: SuperviseOptions) {
  const { layout, clock, log } = options;
  const { cluster } = layout;
  const stopping = new AbortController();
  const isStopping = () => stopping.signal.aborted || options.isInterrupted();
  const pause = (ms: number) => sleep(ms, undefined, { signal: stopping.signal }).catch(() => {});
  const ending = Promise.withResolvers<Refusal>();
  const damage = Promise.withResolvers<Refusal>();
  let damageFound: Refusal | undefined;
  let goneAtMs: number | undefined;

  const onDamage = async (said: string) => {
    // A folder that went away misses every file.
    if (damageFound !== undefined || isStopping() || (await look()) !== "there") return;
    damageFound ??= refuseDamaged(layout.dataDir, said);
    damage.resolve(damageFound);
  };

  const start = async () => {
    try {
      return await startPostmaster({ ...options, cluster, isStopping, onDamage });
    } catch (error) {
      await stopLeftovers({ cluster, clock, graceMs: 0 });
      throw error;
    }
  };

  const noteGone = () => {
    if (goneAtMs !== undefined) return;
    goneAtMs = clock.monotonicMs();
    log.error(
      "The folder of the database went away: no request is answered, and the service ends in a minute",
      {
        folder: cluster,
      },
    );
  };

  /** Waits for a folder that went away; returns false if the service has to end. */
  const waitForFolder = async (): Promise<boolean> => {
    while (!isStopping()) {
      const state = await look();
      if (state === "other") {
        ending.resolve(replacedData(layout));
        return false;
      }
      if (state === "there") {
        if (goneAtMs !== undefined)
          log.warn("The folder of the database is there again", { folder: cluster });
        goneAtMs = undefined;
        return true;
      }
      noteGone();
      if (clock.monotonicMs() - (goneAtMs ?? 0) >= GONE_MS) {
        ending.resolve(goneData(layout));
        return false;
      }
      await pause(WAIT_MS);
    }
    return false;
  };

  const keepRunning = async () => {
    let pauseMs = FIRST_PAUSE_MS;
    let failure = "";
    while (!isStopping()) {
      if (postmaster !== undefined) {
        const readyAt = clock.monotonicMs();
        failure = await postmaster.ended;
        if (clock.monotonicMs() - readyAt > STEADY_MS) pauseMs = FIRST_PAUSE_MS;
        if (isStopping()) return;
      }
      postmaster = undefined;
      if (goneAtMs === undefined && (await look()) === "there")
        log.error("PostgreSQL ended by itself and is started again", { pauseMs, failure });
      if (!(await waitForFolder())) return;
      await pause(pauseMs);
      if (isStopping()) return;
      pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
      try {
        await stopLeftovers({ cluster, clock, graceMs: 0 });
        if (isStopping()) return;
        postmaster = await start();
        log.info("PostgreSQL is running again", { pid: postmaster.pid });
      } catch (error) {
        if (error instanceof DamagedData) {
          ending.resolve(refuseDamaged(layout.dataDir, error.message));
          return;
        }
        failure = reasonOf(error);
      }
    }
  };

  const keepLooking = async () => {
    while (!isStopping()) {
      await pause(LOOK_MS);
      if (isStopping() || postmaster === undefined || (await look()) === "there") continue;
      noteGone();
      postmaster?.quit();
    }
  };

  const look = await watchFolder(cluster);
  let postmaster: Awaited<ReturnType<typeof start>> | undefined = await start();
  const running = Promise.all([keepRunning(), keepLooking()]);

  const fault: DataFault = {
    sentence() {
      if (goneAtMs !== undefined) return "The folder of the database is gone";
      return damageFound && "The data is damaged";
    },
    async damageAfter(error) {
      if (damageFound === undefined && error instanceof DatabaseUnavailable)
        await Promise.race([damage.promise, pause(LAST_LINES_MS)]);
      return damageFound;
    },
    report: (say) => void damage.promise.then(({ sentence }) => say(sentence)),
    ending: ending.promise,
  };
  return {
    fault,
    /** Stops the server: in order until the deadline, then by force. */
    async stop(deadlineMs: number): Promise<void> {
      stopping.abort();
      try {
        await stopLeftovers({ cluster, clock, graceMs: deadlineMs });
        // Its processes are found by their folder, so not if that is gone.
        postmaster?.quit();
      } finally {
        // A start that is in progress sees `isStopping` and ends itself.
        await running;
      }
    },
  };
}

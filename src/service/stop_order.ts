/** Stops the parts of a service in the reverse order of their start, each within its limit. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/log.ts";

/** Ends by the deadline; unfinished work is cut off then. */
interface Stoppable {
  stop(deadlineMs: number): Promise<void>;
}

/** A part that runs in the background. */
interface BackgroundPart extends Stoppable {
  start(): Promise<void>;
}

/**
 * How long a stop waits for a part: a number of milliseconds; with `drain`, until the end of the drain; with `own`,
 * without a limit, because the part itself keeps the deadline.
 */
type StopLimit = number | "drain" | "own";

/** The started parts, which stop in the reverse order. */
export type StopOrder = ReturnType<typeof createStopOrder>;

/** The share of a stop's time after the grace for requests and queued events. */
const DRAIN_SHARE = 0.45;
/** The share of that time that is kept for ending the database by force, if its orderly stop does not end. */
const FORCE_SHARE = 0.45;
/** Ending it by force takes at most this long. */
const MAX_FORCE_MS = 4_000;
/** The limit of parts that close at once. */
const CUT_OFF_MS = 250;

/** Creates the order, which is empty. */
export function createStopOrder({ clock, log }: { readonly clock: Clock; readonly log: Log }) {
  const parts: { readonly part: Stoppable; readonly limit: StopLimit }[] = [];
  const hurried = Promise.withResolvers<void>();
  let stopped: Promise<void> | undefined;

  async function stopAll(deadlineMs: number, graceMs: number): Promise<void> {
    const endMs = clock.monotonicMs() + deadlineMs;
    await Promise.race([sleep(graceMs), hurried.promise]);
    const spanMs = Math.max(0, deadlineMs - graceMs);
    const drainEndMs = clock.monotonicMs() + spanMs * DRAIN_SHARE;
    const forceAtMs = endMs - Math.min(MAX_FORCE_MS, spanMs * FORCE_SHARE);
    const until = (atMs: number) => Math.max(0, atMs - clock.monotonicMs());
    for (const { part, limit } of parts.toReversed()) {
      if (limit === "drain") await within(until(drainEndMs) + CUT_OFF_MS, part.stop(until(drainEndMs)));
      else if (limit !== "own") await within(limit, part.stop(0));
      // The database inside: the stop is not complete while it runs.
      else await part.stop(until(forceAtMs));
    }
  }

  /** Waits at most this long, and not at all after a second call of `stop`. */
  async function within(limitMs: number, work: Promise<void>): Promise<void> {
    const timeout = Promise.withResolvers<void>();
    const timer = setTimeout(timeout.resolve, limitMs);
    try {
      const settled = work.catch((error) =>
        log.warn("A part did not stop in order", { reason: String(error) }),
      );
      await Promise.race([settled, timeout.promise, hurried.promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  return {
    add: (part: Stoppable, limit: StopLimit = CUT_OFF_MS) => void parts.push({ part, limit }),
    /** Adds a part and starts it. */
    async start(part: BackgroundPart, limit: StopLimit = CUT_OFF_MS) {
      parts.push({ part, limit });
      await part.start();
    },
    isStopping: () => stopped !== undefined,
    /**
     * Stops in order: health answers 503, requests are still accepted during the grace, requests in flight finish, queued
     * events are committed, the database stops. Each step is cut off at its limit, so that the stop ends by the deadline.
     * Committed events stay committed. A second call skips the waiting.
     */
    stop(deadlineMs: number, { graceMs = 0 } = {}) {
      if (stopped !== undefined) hurried.resolve();
      stopped ??= stopAll(deadlineMs, graceMs);
      return stopped;
    },
  };
}

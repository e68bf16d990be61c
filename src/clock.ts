/** The one source of time: handed in everywhere, so that a test can move it instead of sleeping. */
export interface Clock {
  /** The wall clock: for expiry, months and what is written down. It may step either way. */
  now(): Date;
  /** The same as milliseconds since 1970, for where a `Date` for each request would be too much. */
  nowMs(): number;
  /** Milliseconds since some fixed moment, never going back: for windows, deadlines and ages. */
  monotonicMs(): number;
}

export const systemClock: Clock = {
  now: () => new Date(),
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
};

/** Work that is done again and again. */
export interface Repetition {
  /** Work that is under way goes on to its end; none follows it. */
  stop(): void;
}

/**
 * Does some work after `firstMs`, and again after the pause that the work returns, never twice at a time. The work
 * ends the repetition by returning undefined, and must not throw.
 */
export function repeat(firstMs: number, work: () => Promise<number | undefined>): Repetition {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isStopped = false;
  function schedule(afterMs: number) {
    timer = setTimeout(async () => {
      const nextMs = await work();
      if (nextMs !== undefined && !isStopped) schedule(nextMs);
    }, afterMs);
  }
  schedule(firstMs);
  return {
    stop() {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}

/** The source of time. It is passed to every part, so that a test can move the clock instead of sleeping. */
export interface Clock {
  /** The wall clock, for expiry, months and stored times. It may step forwards and backwards. */
  now(): Date;
  /** The wall clock in milliseconds since 1970, for places where a `Date` for each request is too expensive. */
  nowMs(): number;
  /** Milliseconds since a fixed moment; never goes back. For windows, deadlines and ages. */
  monotonicMs(): number;
}

export const systemClock: Clock = {
  now: () => new Date(),
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
};

/** Work that is repeated. */
export type Repetition = ReturnType<typeof repeat>;

/**
 * Runs work after `firstMs`, and again after the pause that the work returns. Two runs never overlap. The work ends the
 * repetition by returning undefined. It must not throw.
 */
export function repeat(firstMs: number, work: () => Promise<number | undefined>) {
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
    /** Stops the repetition. Work in progress continues to its end. */
    stop(): void {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}

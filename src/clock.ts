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

/** A clock that runs like the real one and that a test can move, so that a test need not sleep. */
import type { Clock } from "../../src/clock.ts";

export interface TestClock extends Clock {
  /** Moves both clocks ahead. */
  advance(ms: number): void;
  /** Sets only the wall clock, as an administrator or a time server does. */
  setWall(at: string): void;
}

/** Makes a clock whose wall clock shows `at`, by default the present. */
export function createTestClock(at?: string): TestClock {
  let monotonicOffsetMs = 0;
  let wallOffsetMs = at === undefined ? 0 : new Date(at).getTime() - Date.now();
  return {
    now: () => new Date(Date.now() + wallOffsetMs),
    nowMs: () => Date.now() + wallOffsetMs,
    monotonicMs: () => performance.now() + monotonicOffsetMs,
    advance(ms) {
      monotonicOffsetMs += ms;
      wallOffsetMs += ms;
    },
    setWall(to) {
      wallOffsetMs = new Date(to).getTime() - Date.now();
    },
  };
}

/** A clock that runs like the real one and that a test can move, so that a test need not sleep. */
import type { Clock } from "../../src/base/clock.ts";

export interface TestClock extends Clock {
  /** Moves both clocks ahead. */
  advance(ms: number): void;
  /** Sets only the wall clock, as an administrator or a time server does. */
  setWall(at: string): void;
}

/**
 * Makes a clock whose wall clock shows `at`, by default the present. A clock that `stands` moves only when the test moves
 * it, so that the delays of a busy machine do not count.
 */
export function createTestClock(
  at?: string,
  { stands = false }: { readonly stands?: boolean } = {},
): TestClock {
  // Whole numbers, so that sums are exact.
  const [wallBeganMs, beganMs] = [Date.now(), Math.round(performance.now())];
  const wallMs = () => (stands ? wallBeganMs : Date.now());
  let monotonicOffsetMs = 0;
  let wallOffsetMs = at === undefined ? 0 : new Date(at).getTime() - wallMs();
  return {
    now: () => new Date(wallMs() + wallOffsetMs),
    nowMs: () => wallMs() + wallOffsetMs,
    monotonicMs: () => (stands ? beganMs : performance.now()) + monotonicOffsetMs,
    advance(ms) {
      monotonicOffsetMs += ms;
      wallOffsetMs += ms;
    },
    setWall(to) {
      wallOffsetMs = new Date(to).getTime() - wallMs();
    },
  };
}

/**
 * Sets how long and how much a run measures. Rounds are many and short, because a shared machine changes its speed from
 * one second to the next; forms are compared within a round.
 */

export interface Scale {
  /** Rounds of each form; the forms take turns. */
  readonly rounds: number;
  /** The length of one round of one form. */
  readonly roundMs: number;
  /** The warm-up before each round, and the longer one before a form's first round. */
  readonly warmUpMs: number;
  readonly firstWarmUpMs: number;
  /** Keys in the larger database: 20,000 for each round that may be measured, and 20,000 more. */
  readonly manyKeys: number;
  /**
   * Requests while memory is watched: after the first million all code is compiled and the heap has reached
   * its size.
   */
  readonly manyRequests: number;
}

export const FULL: Scale = {
  rounds: 15,
  roundMs: 800,
  warmUpMs: 200,
  firstWarmUpMs: 4_000,
  manyKeys: 1_000_000,
  manyRequests: 2_000_000,
};

/** A short form that shows whether a change was worth it; its figures are not published. */
export const QUICK: Scale = {
  rounds: 5,
  roundMs: 800,
  warmUpMs: 200,
  firstWarmUpMs: 1_500,
  manyKeys: 240_000,
  manyRequests: 200_000,
};

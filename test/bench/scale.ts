/**
 * How long and how much is measured. Many short rounds: a shared machine changes its speed from one second to the
 * next, and forms are compared within a round.
 */

export interface Scale {
  /** Of each form, taken in turn with the others. */
  readonly rounds: number;
  /** One round of one form. */
  readonly roundMs: number;
  /** Before each round, and before the first of a form. */
  readonly warmUpMs: number;
  readonly firstWarmUpMs: number;
  /** Keys in the larger database: 20,000 for each round that may be measured, and 20,000 more. */
  readonly manyKeys: number;
  /** Requests of which memory is watched: by the first million all is compiled, and the heap has its size. */
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

/** To see whether a change was worth it; not what is published. */
export const QUICK: Scale = {
  rounds: 5,
  roundMs: 800,
  warmUpMs: 200,
  firstWarmUpMs: 1_500,
  manyKeys: 240_000,
  manyRequests: 200_000,
};

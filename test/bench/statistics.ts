/** The few figures that a benchmark needs of its rounds. */

/** The middle value, the mean of the two middle ones where their number is even; NaN of none. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const upper = sorted[Math.floor(middle)] ?? Number.NaN;
  if (!Number.isInteger(middle)) return upper;
  return (upper + (sorted[middle - 1] ?? Number.NaN)) / 2;
}

/**
 * The smallest value that at least that share of all is not above (nearest rank); NaN of none. `sorted` must
 * ascend.
 */
export function quantile(sorted: ArrayLike<number>, share: number): number {
  const rank = Math.max(1, Math.ceil(sorted.length * share));
  return sorted[rank - 1] ?? Number.NaN;
}

/** What two forms gave in the same round, one by the other, for each round. */
export function ratios(dividends: readonly number[], divisors: readonly number[]): number[] {
  return dividends.map((dividend, round) => dividend / (divisors[round] ?? Number.NaN));
}

/** The few statistics that a benchmark computes from its rounds. */

/** Returns the middle value, or the mean of the two middle values; NaN without values. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const upper = sorted[Math.floor(middle)] ?? Number.NaN;
  if (!Number.isInteger(middle)) return upper;
  return (upper + (sorted[middle - 1] ?? Number.NaN)) / 2;
}

/**
 * Returns the smallest value that is not exceeded by at least this share of all values (nearest rank); NaN without
 * values. `sorted` must ascend.
 */
export function quantile(sorted: ArrayLike<number>, share: number): number {
  const rank = Math.max(1, Math.ceil(sorted.length * share));
  return sorted[rank - 1] ?? Number.NaN;
}

/** Divides the values of two forms round by round. */
export function ratios(dividends: readonly number[], divisors: readonly number[]): number[] {
  return dividends.map((dividend, round) => dividend / (divisors[round] ?? Number.NaN));
}

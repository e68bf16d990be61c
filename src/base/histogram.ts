/** A histogram with fixed bounds. An observation is one addition in a typed array. */

export interface HistogramCounts {
  /** The highest value of each bucket, ascending. One more bucket has all values above the last bound. */
  readonly bounds: readonly number[];
  /** The number of values of each bucket; one bucket more than bounds. A value is in one bucket only. */
  readonly counts: readonly number[];
  readonly sum: number;
}

/**
 * Returns the value that a share of all values does not exceed, of histograms with the same bounds; null without a value.
 * The values of a bucket are taken as evenly spread in it, and those above the last bound as equal to it.
 */
export function quantileOf(histograms: readonly HistogramCounts[], share: number): number | null {
  const [first] = histograms;
  if (first === undefined) return null;
  const { bounds } = first;
  const counts = histograms.length === 1 ? first.counts : addCounts(histograms);
  let total = 0;
  for (const count of counts) total += count;
  if (total === 0) return null;
  let rest = total * share;
  for (let bucket = 0; bucket < bounds.length; bucket++) {
    const count = counts[bucket] ?? 0;
    const low = bounds[bucket - 1] ?? 0;
    if (count > 0 && rest <= count) return low + (((bounds[bucket] ?? 0) - low) * rest) / count;
    rest -= count;
  }
  return bounds.at(-1) ?? null;
}

function addCounts(histograms: readonly HistogramCounts[]): number[] {
  const sums: number[] = [];
  for (const { counts } of histograms)
    for (const [bucket, count] of counts.entries()) sums[bucket] = (sums[bucket] ?? 0) + count;
  return sums;
}

/** A class, because every request calls `observe`. */
export class Histogram {
  readonly #bounds: Float64Array;
  readonly #counts: Float64Array;
  #sum = 0;

  /** Throws a RangeError unless the bounds ascend. */
  constructor(bounds: readonly number[]) {
    if (bounds.some((bound, i) => i > 0 && bound <= (bounds[i - 1] ?? 0))) {
      throw new RangeError("Cannot make a histogram: its bounds must ascend");
    }
    this.#bounds = Float64Array.from(bounds);
    this.#counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const bounds = this.#bounds;
    let bucket = 0;
    // From the low end: nearly every value is small.
    while (bucket < bounds.length && value > (bounds[bucket] as number)) bucket++;
    this.#counts[bucket] = (this.#counts[bucket] as number) + 1;
    this.#sum += value;
  }

  counts(): HistogramCounts {
    return { bounds: [...this.#bounds], counts: [...this.#counts], sum: this.#sum };
  }
}

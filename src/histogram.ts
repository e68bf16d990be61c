/** A histogram with fixed bounds. An observation is one addition in a typed array. */

export interface HistogramCounts {
  /** The highest value of each bucket, ascending. One more bucket has all values above the last bound. */
  readonly bounds: readonly number[];
  /** The number of values of each bucket; one bucket more than bounds. A value is in one bucket only. */
  readonly counts: readonly number[];
  readonly sum: number;
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

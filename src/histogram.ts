/** A histogram with fixed bounds: an observation is one addition in a typed array. */

export interface HistogramCounts {
  /** The highest value of each bucket, ascending; what is above the last is in a bucket more. */
  readonly bounds: readonly number[];
  /** How many values each bucket holds, one more than there are bounds; a value is in one bucket only. */
  readonly counts: readonly number[];
  readonly sum: number;
}

/** A class, since its `observe` is on the path of every request. */
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
    // From the low end: nearly every value lies there.
    while (bucket < bounds.length && value > (bounds[bucket] as number)) bucket++;
    this.#counts[bucket] = (this.#counts[bucket] as number) + 1;
    this.#sum += value;
  }

  counts(): HistogramCounts {
    return { bounds: [...this.#bounds], counts: [...this.#counts], sum: this.#sum };
  }
}

/**
 * Keeps entries of counted requests, for several requests that count as one: the ranges of one file.
 *
 * All entries live equally long, so the oldest entry is the first to expire. When the memory is full, the
 * oldest entry is dropped; then something may be counted twice.
 *
 * Pure: times are monotonic milliseconds that are passed in.
 */
export class CountedOnce {
  readonly #ageMs: number;
  readonly #capacity: number;
  readonly #endsAtMs = new Map<string, number>();

  /** Remembers at most `capacity` entries, each for `ageMs` milliseconds. */
  constructor({ ageMs, capacity }: { readonly ageMs: number; readonly capacity: number }) {
    this.#ageMs = ageMs;
    this.#capacity = capacity;
  }

  get size(): number {
    return this.#endsAtMs.size;
  }

  has(id: string, nowMs: number): boolean {
    return (this.#endsAtMs.get(id) ?? Number.NEGATIVE_INFINITY) > nowMs;
  }

  /** Adds an entry. It expires after `ageMs`; a look-up does not prolong that. */
  add(id: string, nowMs: number): void {
    this.#endsAtMs.delete(id);
    for (const [first, endsAtMs] of this.#endsAtMs) {
      if (endsAtMs > nowMs && this.#endsAtMs.size < this.#capacity) break;
      this.#endsAtMs.delete(first);
    }
    this.#endsAtMs.set(id, nowMs + this.#ageMs);
  }

  forget(id: string): void {
    this.#endsAtMs.delete(id);
  }
}

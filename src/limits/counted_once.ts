/**
 * What was counted already, for requests of which a whole bundle counts as one: the ranges of one file.
 *
 * All entries live equally long, so they lie in the order in which they end, and the first are the first
 * to go: also when the memory is full, where the worst that happens is that something counts once more.
 *
 * Pure, as its neighbours: times are monotonic milliseconds that are passed in.
 */
export class CountedOnce {
  readonly #ageMs: number;
  readonly #capacity: number;
  readonly #endsAtMs = new Map<string, number>();

  /** Remembers at most `capacity` things, each for `ageMs`. */
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

  /** Remembers it from now on: for `ageMs`, whatever is asked meanwhile. */
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

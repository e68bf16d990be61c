/**
 * One sender's requests in a window that slides by the second.
 *
 * Requests are kept as (second, count) pairs, oldest first. A second is counted until all of it has
 * left the last 60 seconds: a request within second `s` counts through second `s + 60`. So a request is
 * counted for at least 60 seconds and for at most 61.
 *
 * The newest pair is in the window itself, so most requests touch no other memory: with many thousand
 * windows each other access is a cache miss. The older pairs are in a ring that is created when the first
 * one is needed and doubles as needed, to at most 64 pairs, because only 61 seconds count at a time.
 *
 * Seconds are whole numbers on any monotonic scale. The seconds that are passed to one window must never go back.
 */

/** The length of the window. */
const WINDOW_SECONDS = 60;

/** The number of seconds in which a request is counted, including its own second. */
const COUNTED_SECONDS = WINDOW_SECONDS + 1;

/** Powers of two, so that a mask wraps the index. */
const INITIAL_PAIRS = 2;

/** The count of a second stops here: far more than a process can answer, and far from an overflow. */
const MAX_COUNT_PER_SECOND = 2 ** 30;

const noPairs = new Uint32Array(0);

export class SlidingWindow {
  #total = 0;
  #oldestSecond = 0;
  #newestSecond = 0;
  /** 0 when the window is empty. */
  #newestCount = 0;
  /** The pairs before the newest: pair `i` is its second at `2 * i` and its count at `2 * i + 1`. */
  #ring: Uint32Array = noPairs;
  #first = 0;
  #pairs = 0;

  /** The number of requests that count since the last `forget`. */
  get total(): number {
    return this.#total;
  }

  /** The last second in which a request was counted; 0 if none was. */
  get newestSecond(): number {
    return this.#newestSecond;
  }

  /** The second at which the window will be empty if no more requests are counted. */
  get emptyAtSecond(): number {
    return this.#newestSecond + COUNTED_SECONDS;
  }

  /** Drops the seconds that have completely left the window by the start of `second`. */
  forget(second: number): void {
    if (this.#total > 0 && this.#oldestSecond + COUNTED_SECONDS <= second) this.#dropPairs(second);
  }

  /** Counts `units` requests (≥ 1) in `second`. Call `forget(second)` first: it bounds the ring. */
  count(second: number, units = 1): void {
    if (this.#newestCount === 0) this.#oldestSecond = second;
    else if (this.#newestSecond !== second) this.#push();
    else {
      if (this.#newestCount >= MAX_COUNT_PER_SECOND) return;
      this.#newestCount += units;
      this.#total += units;
      return;
    }
    this.#newestSecond = second;
    this.#newestCount = units;
    this.#total += units;
  }

  /** Takes back `units` requests that were counted in `second`; does nothing if the second has left the window. */
  takeBack(second: number, units = 1): void {
    if (this.#newestCount === 0) return;
    if (this.#newestSecond !== second) {
      for (let i = 0; i < this.#pairs; i++) {
        if (this.#secondAt(i) !== second) continue;
        const taken = Math.min(units, this.#countAt(i));
        this.#ring[this.#indexOf(i) + 1] = this.#countAt(i) - taken;
        this.#total -= taken;
      }
      return;
    }
    const taken = Math.min(units, this.#newestCount);
    this.#newestCount -= taken;
    this.#total -= taken;
    // The newest pair is never 0 unless the window is empty: `count` and `emptyAtSecond` rely on that.
    while (this.#newestCount === 0 && this.#pairs > 0) {
      this.#pairs -= 1;
      this.#newestSecond = this.#secondAt(this.#pairs);
      this.#newestCount = this.#countAt(this.#pairs);
    }
  }

  /** Returns the first second at which fewer than `limit` (≥ 1) of the present requests will count. */
  roomAtSecond(limit: number): number {
    let left = this.#total;
    let roomAt = 0;
    for (let i = 0; i < this.#pairs && left >= limit; i++) {
      left -= this.#countAt(i);
      roomAt = this.#secondAt(i) + COUNTED_SECONDS;
    }
    return left >= limit ? this.emptyAtSecond : roomAt;
  }

  /** Copies all counts of `other`; this window must be new. */
  inherit(other: SlidingWindow): void {
    this.#total = other.#total;
    this.#oldestSecond = other.#oldestSecond;
    this.#newestSecond = other.#newestSecond;
    this.#newestCount = other.#newestCount;
    this.#ring = other.#ring.slice();
    this.#first = other.#first;
    this.#pairs = other.#pairs;
  }

  #dropPairs(second: number): void {
    while (this.#pairs > 0) {
      this.#oldestSecond = this.#secondAt(0);
      if (this.#oldestSecond + COUNTED_SECONDS > second) return;
      this.#total -= this.#countAt(0);
      this.#first += 1;
      this.#pairs -= 1;
    }
    this.#oldestSecond = this.#newestSecond;
    if (this.#newestSecond + COUNTED_SECONDS > second) return;
    this.#total = 0;
    this.#newestCount = 0;
  }

  /** Appends the newest pair to the ring. */
  #push(): void {
    if (2 * this.#pairs === this.#ring.length) this.#grow();
    const index = this.#indexOf(this.#pairs);
    this.#ring[index] = this.#newestSecond;
    this.#ring[index + 1] = this.#newestCount;
    this.#pairs += 1;
  }

  #grow(): void {
    const grown = new Uint32Array(Math.max(2 * INITIAL_PAIRS, 2 * this.#ring.length));
    for (let i = 0; i < this.#pairs; i++) {
      grown[2 * i] = this.#secondAt(i);
      grown[2 * i + 1] = this.#countAt(i);
    }
    this.#ring = grown;
    this.#first = 0;
  }

  /** Returns the index in the ring of the pair that is `i` behind the first. */
  #indexOf(i: number): number {
    return (2 * (this.#first + i)) & (this.#ring.length - 1);
  }

  // The index is always within the ring, which the type of an array cannot say.
  #secondAt(i: number): number {
    return this.#ring[this.#indexOf(i)] as number;
  }

  #countAt(i: number): number {
    return this.#ring[this.#indexOf(i) + 1] as number;
  }
}

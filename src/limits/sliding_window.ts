/**
 * One sender's requests in a window that slides by the second.
 *
 * Requests are kept as (second, count) pairs, oldest first. A second is counted until all of it has
 * left the last 60 seconds: what happened within second `s` counts through second `s + 60`. So no
 * request is forgotten before it is 60 seconds old, and none is remembered for more than 61.
 *
 * The pairs lie in a ring that starts with room for two and doubles as needed: somebody who calls once
 * a minute costs two pairs, and nobody can cost more than 64, since only 61 seconds count at a time.
 *
 * Seconds are whole, on any monotonic scale; those handed to one window must never go back.
 */

/** The length of the window. */
const windowSeconds = 60;

/** Seconds through which a request is counted, its own included. */
const countedSeconds = windowSeconds + 1;

/** Powers of two, so that a mask wraps the index. */
const initialPairs = 2;

/** A second's count stops here: far above what a process can answer, far below where it would wrap. */
const maxCountPerSecond = 2 ** 30;

export class SlidingWindow {
  /** Pair `i` is its second at `2 * i` and its count at `2 * i + 1`. */
  #ring = new Uint32Array(2 * initialPairs);
  #mask = initialPairs - 1;
  #oldest = 0;
  #pairs = 0;
  #total = 0;
  #newestSecond = 0;

  /** Requests counted as of the last `forget`. */
  get total(): number {
    return this.#total;
  }

  /** The last second in which something was counted; 0 if nothing ever was. */
  get newestSecond(): number {
    return this.#newestSecond;
  }

  /** The second at which the window will be empty if nothing more is counted. */
  get emptyAtSecond(): number {
    return this.#newestSecond + countedSeconds;
  }

  /** Drops the seconds that have left the window wholly by the start of `second`. */
  forget(second: number): void {
    while (this.#pairs > 0 && this.#at(2 * this.#oldest) + countedSeconds <= second) {
      this.#total -= this.#at(2 * this.#oldest + 1);
      this.#oldest = (this.#oldest + 1) & this.#mask;
      this.#pairs -= 1;
    }
  }

  /** Counts one request in `second`. Call `forget(second)` first: that is what bounds the ring. */
  count(second: number): void {
    if (this.#pairs === 0 || this.#newestSecond !== second) {
      this.#push(second, 1);
      this.#total += 1;
      return;
    }
    const newest = 2 * ((this.#oldest + this.#pairs - 1) & this.#mask) + 1;
    const count = this.#at(newest);
    if (count >= maxCountPerSecond) return;
    this.#ring[newest] = count + 1;
    this.#total += 1;
  }

  /** The first second at which fewer than `limit` (≥ 1) of the present requests will be counted. */
  roomAtSecond(limit: number): number {
    let left = this.#total;
    let index = this.#oldest;
    let roomAt = 0;
    while (left >= limit) {
      left -= this.#at(2 * index + 1);
      roomAt = this.#at(2 * index) + countedSeconds;
      index = (index + 1) & this.#mask;
    }
    return roomAt;
  }

  /** Takes over all that `other` has counted; this window must be new. */
  inherit(other: SlidingWindow): void {
    for (let i = 0; i < other.#pairs; i++) {
      const index = 2 * ((other.#oldest + i) & other.#mask);
      this.#push(other.#at(index), other.#at(index + 1));
    }
    this.#total = other.#total;
  }

  #push(second: number, count: number): void {
    if (this.#pairs > this.#mask) this.#grow();
    const index = 2 * ((this.#oldest + this.#pairs) & this.#mask);
    this.#ring[index] = second;
    this.#ring[index + 1] = count;
    this.#pairs += 1;
    this.#newestSecond = second;
  }

  #grow(): void {
    const grown = new Uint32Array(2 * this.#ring.length);
    for (let i = 0; i < this.#pairs; i++) {
      const index = 2 * ((this.#oldest + i) & this.#mask);
      grown[2 * i] = this.#at(index);
      grown[2 * i + 1] = this.#at(index + 1);
    }
    this.#ring = grown;
    this.#oldest = 0;
    this.#mask = grown.length / 2 - 1;
  }

  /** The index is always within the ring, which the type of an array cannot say. */
  #at(index: number): number {
    return this.#ring[index] as number;
  }
}

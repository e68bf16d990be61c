/**
 * Bounds how many downloads are in progress at once, for one sender and for all senders together.
 *
 * No event tells that a download has ended, so each download is asked whether it has ended, but only when no room is
 * left. Asking all of them on every refusal would let an attacker burn CPU, so a bound that was found full counts as
 * full for a moment.
 *
 * When three quarters of all places are taken, a sender may have 16, so that a few senders do not take the
 * rest.
 *
 * Pure: times are monotonic milliseconds that are passed in.
 */

/** How long a bound that was found full counts as full. */
const FULL_FOR_MS = 100;
/** Without a bound for all senders, ended entries are removed at this number, and whenever the number has doubled. */
const FIRST_SWEEP = 1_000;
/** From this share of all places on, each sender may have {@linkcode CROWDED_PER_SENDER}. */
const CROWDED_SHARE = 0.75;
const CROWDED_PER_SENDER = 16;
/** If a sweep leaves this share of the crowded number, the next sweep waits. */
const NEARLY_CROWDED_SHARE = 0.9;
const NEVER = Number.NEGATIVE_INFINITY;

/** The bound that is reached, if any. */
type Begun = "begun" | "sender full" | "sender crowds others" | "all full";

export class InFlight {
  readonly #perSender: number;
  readonly #inAll: number;
  readonly #senders = new Map<string, Sender>();
  #size = 0;
  readonly #crowdedAt: number;
  #sweepAt: number;
  #crowdedUntilMs = NEVER;
  #fullUntilMs = NEVER;

  /** Takes the most at once for one sender, and for all senders together; 0 means no bound. */
  constructor({ perSender, inAll }: { readonly perSender: number; readonly inAll: number }) {
    this.#perSender = perSender;
    this.#inAll = inAll;
    this.#crowdedAt = inAll === 0 ? Number.POSITIVE_INFINITY : inAll * CROWDED_SHARE;
    this.#sweepAt = inAll || FIRST_SWEEP;
  }

  /** The number of entries held: never more than the bounds, or than twice the number in progress. */
  get size(): number {
    return this.#size;
  }

  /**
   * Adds a piece of work, or returns the bound that is reached. `isOver` tells whether the work has ended, with or
   * without success.
   */
  begin(
    sender: string,
    { nowMs, isOver }: { readonly nowMs: number; readonly isOver: () => boolean },
  ): Begun {
    const own = this.#senders.get(sender) ?? { pieces: [], fullUntilMs: NEVER, crowdsUntilMs: NEVER };
    if (this.#perSender > 0 && own.pieces.length >= this.#perSender) {
      if (nowMs < own.fullUntilMs) return "sender full";
      this.#sweep(sender, own);
      if (own.pieces.length >= this.#perSender) {
        own.fullUntilMs = nowMs + FULL_FOR_MS;
        return "sender full";
      }
    }
    if (this.#crowdsOthers(sender, own, nowMs)) return "sender crowds others";
    if (this.#size >= this.#sweepAt) {
      if (nowMs < this.#fullUntilMs) return "all full";
      this.#sweepAll();
      if (this.#inAll > 0 && this.#size >= this.#inAll) {
        this.#fullUntilMs = nowMs + FULL_FOR_MS;
        return "all full";
      }
      if (this.#inAll === 0) this.#sweepAt = Math.max(FIRST_SWEEP, 2 * this.#size);
    }
    own.pieces.push(isOver);
    this.#senders.set(sender, own);
    this.#size++;
    return "begun";
  }

  #crowdsOthers(sender: string, own: Sender, nowMs: number): boolean {
    const mayCrowd = () => own.pieces.length >= CROWDED_PER_SENDER && this.#size >= this.#crowdedAt;
    if (!mayCrowd()) return false;
    if (nowMs < own.crowdsUntilMs) return true;
    this.#sweep(sender, own);
    if (!mayCrowd()) return false;
    if (nowMs >= this.#crowdedUntilMs) {
      this.#sweepAll();
      // Also when the sweep freed only a few places: otherwise each request would ask all entries again.
      if (this.#size >= this.#crowdedAt * NEARLY_CROWDED_SHARE) this.#crowdedUntilMs = nowMs + FULL_FOR_MS;
    }
    if (!mayCrowd()) return false;
    own.crowdsUntilMs = nowMs + FULL_FOR_MS;
    return true;
  }

  #sweepAll(): void {
    for (const [sender, own] of this.#senders) this.#sweep(sender, own);
  }

  #sweep(sender: string, own: Sender): void {
    const left = own.pieces.filter((isOver) => !isOver());
    this.#size -= own.pieces.length - left.length;
    own.pieces = left;
    if (left.length === 0) this.#senders.delete(sender);
  }
}

interface Sender {
  pieces: (() => boolean)[];
  fullUntilMs: number;
  crowdsUntilMs: number;
}

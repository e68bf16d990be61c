/**
 * The windows of all senders at one endpoint, in bounded memory.
 *
 * The windows are in a list, in the order of the second in which they last counted a request. So the first window of
 * the list is the first to become empty. A window from which requests were taken back may be empty earlier; it stays
 * until its turn. So only empty windows are removed, and that costs almost nothing: each call removes at most a few
 * empty windows from the front, and when the table is full, the first window tells whether one can be removed.
 *
 * When the table is full of windows that are not empty, all senders without a window share one, the overflow window.
 * The overflow window does not record who sent a request. So a new window starts with all its requests. That keeps the
 * promise of at most `limit` requests in any 60 seconds for every sender.
 */
import { SlidingWindow } from "./sliding_window.ts";

/** The decision about one request, or about several that are counted together, with the numbers for its headers. */
export interface Verdict {
  /** Whether there was room for the request. */
  readonly allowed: boolean;
  /** Requests allowed in any 60 seconds; 0 if there is no limit, and then there are no headers. */
  readonly limit: number;
  /** Requests left after this one; never negative. */
  readonly remaining: number;
  /** If refused: whole seconds, 1 to 61, after which there is room again. Otherwise 0. */
  readonly retryAfterSeconds: number;
  /** The second in which the request was counted; undefined if it was not counted. */
  readonly countedSecond: number | undefined;
  /** How many requests were counted together; 1 by default. */
  readonly units?: number;
  /** Milliseconds from the given time until the window is empty, if no more requests are counted. */
  readonly resetAfterMs: number;
}

/** The windows of keys at one endpoint, in this process ({@linkcode WindowTable}) or shared with others. */
export interface KeyWindows {
  /** Counts a request if there is room. */
  take(sender: Sender, nowMs: number): Verdict | Promise<Verdict>;
  /**
   * Counts `units` requests if there is room for all of them, and otherwise none. `units` is 1 or more and at most the
   * limit, if there is one. After a refusal, `remaining` says for how many there is room.
   */
  takeMany(sender: Sender, nowMs: number, units: number): Verdict | Promise<Verdict>;
  /** Returns the decision without counting. */
  peek(sender: Sender, nowMs: number): Verdict | Promise<Verdict>;
  /** Takes back the requests of `verdict`, if they were counted. Returns the decision afterwards. */
  takeBack(sender: Sender, verdict: Verdict, nowMs: number): Verdict;
  stats(): WindowStats;
}

/** Counters since the windows were created, and numbers of now. */
export interface WindowStats {
  /** Requests that `take` refused. */
  readonly refused: number;
  /** Of a {@linkcode WindowTable}: its windows, and requests that were counted in the overflow window. */
  readonly windows?: number;
  readonly overflowHits?: number;
  /** Of shared windows: requests that wait to be counted. */
  readonly waiting?: number;
}

/** The most empty windows that one call drops: more than a call can add, so that a backlog shrinks. */
const DROPS_PER_CALL = 4;

const MAX_LIMIT = 2 ** 30;

const switchedOff: Verdict = Object.freeze({
  allowed: true,
  limit: 0,
  remaining: 0,
  retryAfterSeconds: 0,
  countedSecond: undefined,
  resetAfterMs: 0,
});

/**
 * A sender that keeps its last window, so that the next request needs no look-up. The window belongs to one
 * table, and may have been dropped since; the table checks both.
 */
export interface Sender {
  readonly uuid: string;
  window: HeldWindow | undefined;
  /** How many requests a minute it may send at least, where limits grow; by default 0. */
  readonly leastLimit?: number;
}

/** Returns the limit of a sender in requests a minute. */
export type LimitOf = (sender: Sender) => number;

/** Returns a limit that is at least `least`, in requests a minute. A limit of 0 means no limit, and stays. */
export function growLimit(limit: number, least: number): number {
  return limit === 0 ? 0 : Math.max(limit, least);
}

/** A sender's window with its place in the list. */
class HeldWindow extends SlidingWindow {
  readonly key: string;
  /** The table that holds the window; undefined after it was dropped. */
  holder: WindowTable | undefined = undefined;
  before: HeldWindow | undefined = undefined;
  after: HeldWindow | undefined = undefined;

  constructor(key: string) {
    super();
    this.key = key;
  }
}

/**
 * Counts requests by sender and refuses the requests above the limit.
 *
 * Never admits more than `limit` of one sender in any 60 seconds. It may hold a request up to one
 * second longer than needed, because a second is counted until all of it has left the window; that is
 * also why `retryAfterSeconds` is a whole number that can be trusted.
 *
 * Times are monotonic milliseconds, ≥ 0. An older time than the last one counts as the last one,
 * because requests that waited may arrive out of order.
 */
export class WindowTable implements KeyWindows {
  readonly #limit: number;
  readonly #capacity: number;
  /** Undefined if all senders have the same limit. */
  readonly #limitOf: LimitOf | undefined;
  readonly #held = new Map<string, HeldWindow>();
  readonly #overflow = new HeldWindow("");
  #first: HeldWindow | undefined;
  #last: HeldWindow | undefined;
  #second = 0;
  #refused = 0;
  #overflowHits = 0;

  /**
   * Creates an empty table: `limit` requests a minute, 0 to 2³⁰, 0 for no limit; at most `capacity` windows, ≥ 1,
   * besides the overflow window. `limitOf` gives a sender that keeps its window a higher limit. Throws a RangeError for
   * other numbers.
   */
  constructor(limit: number, capacity: number, { limitOf }: { readonly limitOf?: LimitOf | undefined } = {}) {
    if (!Number.isInteger(limit) || limit < 0 || limit > MAX_LIMIT) {
      throw new RangeError(`Cannot make windows: limit must be a whole number from 0 to ${MAX_LIMIT}`);
    }
    if (!Number.isInteger(capacity) || capacity < 1) {
      throw new RangeError("Cannot make windows: capacity must be a whole number, 1 or more");
    }
    this.#limit = limit;
    this.#capacity = capacity;
    this.#limitOf = limitOf;
  }

  /** Counts a request of the sender if there is room; otherwise refuses the request and does not count it. */
  take(sender: string | Sender, nowMs: number): Verdict {
    if (this.#limit === 0) return switchedOff;
    this.#advance(nowMs);
    const limit = this.#limitFor(sender);
    const window = this.#windowToCount(sender, limit);
    const allowed = window.total < limit;
    if (allowed) this.#count(window);
    else this.#refused += 1;
    return this.#verdict(window, limit, allowed, nowMs);
  }

  /** Counts `units` requests of the sender (1 to the limit) if there is room for all of them; otherwise none. */
  takeMany(sender: string | Sender, nowMs: number, units: number): Verdict {
    if (this.#limit === 0) return switchedOff;
    this.#advance(nowMs);
    const limit = this.#limitFor(sender);
    const window = this.#windowToCount(sender, limit);
    const allowed = window.total + units <= limit;
    if (allowed) this.#count(window, units);
    else this.#refused += 1;
    const verdict = this.#verdict(window, limit, allowed, nowMs);
    if (allowed) return { ...verdict, units };
    return { ...verdict, retryAfterSeconds: window.roomAtSecond(limit - units + 1) - this.#second };
  }

  /**
   * Counts a request of the sender even without room: for a request that is refused for another reason.
   * The count may exceed the limit. `allowed` tells whether there was room.
   */
  record(sender: string | Sender, nowMs: number): Verdict {
    if (this.#limit === 0) return switchedOff;
    this.#advance(nowMs);
    const limit = this.#limitFor(sender);
    const window = this.#windowOf(sender) ?? this.#admit(sender);
    window.forget(this.#second);
    const allowed = window.total < limit;
    this.#count(window);
    return { ...this.#verdict(window, limit, allowed, nowMs), countedSecond: this.#second };
  }

  /** Returns the decision without counting: for a request that is counted by another one. */
  peek(sender: string | Sender, nowMs: number): Verdict {
    if (this.#limit === 0) return switchedOff;
    this.#advance(nowMs);
    return this.#look(this.#windowOf(sender) ?? this.#overflow, this.#limitFor(sender), nowMs);
  }

  /**
   * Takes back the request of `verdict`, if it was counted: for a request that the service could not answer.
   * Returns the decision of the window afterwards.
   */
  takeBack(sender: string | Sender, verdict: Verdict, nowMs: number): Verdict {
    if (this.#limit === 0 || verdict.countedSecond === undefined) return verdict;
    this.#advance(nowMs);
    // A window created since then has inherited the request from the overflow window, which keeps it for all others.
    const window = this.#windowOf(sender) ?? this.#overflow;
    window.takeBack(verdict.countedSecond, verdict.units);
    // Not the present limit of the sender: one answer names one limit.
    return this.#look(window, verdict.limit, nowMs);
  }

  stats() {
    return { windows: this.#held.size, refused: this.#refused, overflowHits: this.#overflowHits };
  }

  /** Returns the window that counts a request of the sender, without the seconds that are over. */
  #windowToCount(sender: string | Sender, limit: number): HeldWindow {
    const window =
      this.#windowOf(sender) ?? (this.#overflowIsFull(limit) ? this.#spill() : this.#admit(sender));
    window.forget(this.#second);
    return window;
  }

  #windowOf(sender: string | Sender): HeldWindow | undefined {
    if (typeof sender === "string") return this.#held.get(sender);
    const kept = sender.window;
    if (kept !== undefined && kept.holder === this) return kept;
    const window = this.#held.get(sender.uuid);
    if (window !== undefined) sender.window = window;
    return window;
  }

  #limitFor(sender: string | Sender): number {
    return this.#limitOf === undefined || typeof sender === "string" ? this.#limit : this.#limitOf(sender);
  }

  #look(window: HeldWindow, limit: number, nowMs: number): Verdict {
    window.forget(this.#second);
    const verdict = this.#verdict(window, limit, window.total < limit, nowMs);
    const resetAfterMs = window.total === 0 ? 0 : verdict.resetAfterMs;
    return { ...verdict, countedSecond: undefined, resetAfterMs };
  }

  /** Four arguments, because an object of them would be made for each request. */
  #verdict(window: HeldWindow, limit: number, allowed: boolean, nowMs: number): Verdict {
    return {
      allowed,
      limit,
      remaining: Math.max(0, limit - window.total),
      countedSecond: allowed ? this.#second : undefined,
      retryAfterSeconds: allowed ? 0 : window.roomAtSecond(limit) - this.#second,
      resetAfterMs: window.emptyAtSecond * 1000 - nowMs,
    };
  }

  #count(window: HeldWindow, units = 1): void {
    const isInOrder = window.newestSecond === this.#second || window === this.#overflow;
    window.count(this.#second, units);
    if (!isInOrder) this.#moveToEnd(window);
  }

  #advance(nowMs: number): void {
    const second = Math.floor(nowMs / 1000);
    if (second > this.#second) {
      this.#second = second;
      this.#overflow.forget(second);
    }
    let drops = DROPS_PER_CALL;
    while (drops > 0 && this.#dropFirstIfEmpty()) drops -= 1;
  }

  /** A window that inherits a full one would also refuse, and would cost a place. */
  #overflowIsFull(limit: number): boolean {
    return this.#overflow.total >= limit;
  }

  #spill(): HeldWindow {
    this.#overflowHits += 1;
    return this.#overflow;
  }

  #admit(sender: string | Sender): HeldWindow {
    if (this.#held.size >= this.#capacity && !this.#dropFirstIfEmpty()) return this.#spill();
    const made = new HeldWindow(typeof sender === "string" ? sender : sender.uuid);
    made.holder = this;
    if (typeof sender !== "string") sender.window = made;
    if (this.#overflow.total > 0) made.inherit(this.#overflow);
    this.#held.set(made.key, made);
    this.#append(made);
    return made;
  }

  #dropFirstIfEmpty(): boolean {
    const first = this.#first;
    if (first === undefined || first.emptyAtSecond > this.#second) return false;
    this.#unlink(first);
    first.holder = undefined;
    this.#held.delete(first.key);
    return true;
  }

  #moveToEnd(window: HeldWindow): void {
    if (window === this.#last) return;
    this.#unlink(window);
    this.#append(window);
  }

  #append(window: HeldWindow): void {
    window.before = this.#last;
    if (this.#last === undefined) this.#first = window;
    else this.#last.after = window;
    this.#last = window;
  }

  /** Clears all references of the window: a sender may keep the window long after it was dropped. */
  #unlink(window: HeldWindow): void {
    const { before, after } = window;
    window.before = undefined;
    window.after = undefined;
    if (before === undefined) this.#first = after;
    else before.after = after;
    if (after === undefined) this.#last = before;
    else after.before = before;
  }
}

/** Returns the Unix second at which the window will be empty; `wallMs` is the wall clock's time. */
export function toResetAt(verdict: Verdict, wallMs: number): number {
  return Math.ceil((wallMs + verdict.resetAfterMs) / 1000);
}

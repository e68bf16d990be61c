/**
 * Looks the key of a request up, and counts the request in one window.
 *
 * Which window: that of the key, if the key was issued and is not revoked; otherwise that of the client address.
 *
 * When: at once, if this process keeps the window of the key. Later, if several processes share it in the database.
 * Never, if another request of its bundle was counted.
 *
 * An answer from memory comes without a promise, and these functions create no closures: the runtime would allocate the
 * captured variables for each request.
 */
import { type Verdict, WindowTable } from "../base/rate_limits/mod.ts";
import { isRefusal, type Refusal, refuse } from "../base/refusal.ts";
import { type KeyHash, type KeyRecord, OBSTACLE_REFUSALS } from "../licensing/keys/mod.ts";
import type { Eventually, LimitedEndpoint } from "../wire/mod.ts";
import type { AddressOf } from "./address_reader.ts";
import type { AppOptions } from "./app_options.ts";
import type { Exchange } from "./exchange.ts";
import { refusalOf } from "./usable_key.ts";

/** What counting needs of the service. */
export interface Counting extends Pick<AppOptions, "directory" | "limiter" | "clock"> {
  readonly addressOf: AddressOf;
}

/**
 * Remembers bundles: several requests that count as one. After the first request of a bundle was counted, the
 * others are free. Only requests with a key that is active and not expired form a bundle: every other request
 * counts.
 */
export interface CountOnce {
  /** Tells whether a request of the bundle was counted; a promise while one waits to be counted. */
  wasCounted(record: KeyRecord): Eventually<boolean>;
  /** Remembers whether a request of the bundle was counted. */
  note(record: KeyRecord, isCounted: Eventually<boolean>): void;
}

/** The key to look up, and the endpoint whose window counts the request. */
interface KeyLookup {
  /** Null for an invalid link. */
  readonly hash: KeyHash | null;
  readonly endpoint: LimitedEndpoint;
  readonly once?: CountOnce | undefined;
}

interface Found extends Omit<KeyLookup, "hash"> {
  /** Null for a key that was never issued. */
  readonly record: KeyRecord | null;
  /** False while the database does not answer: the record may be out of date. */
  readonly isTrusted: boolean;
  /** By the monotonic clock. */
  readonly nowMs: number;
}

/** The result of counting: the key, null for a key that was never issued, or the refusal of the request. */
export type CountedKey = KeyRecord | null | Refusal;

export const RATE_LIMITED = OBSTACLE_REFUSALS.too_many_requests;
export const UNAVAILABLE = refuse(
  "SERVICE_UNAVAILABLE",
  "The service cannot answer now: its database does not respond; try again",
);

/**
 * The longest time from the first look-up of a request until a shared window has counted it. What follows takes up to
 * 3 s, and no answer may take longer than 5 s.
 */
const MAX_COUNTING_MS = 2_000;

/** Looks a key up and counts the request, without a promise if the key is in the cache. */
export function findAndCount(
  counting: Counting,
  exchange: Exchange,
  lookup: KeyLookup,
): Eventually<CountedKey> {
  const { hash, endpoint, once } = lookup;
  const { directory, clock } = counting;
  const nowMs = clock.monotonicMs();
  exchange.lookUpBeganMs ??= nowMs;
  const cached = hash === null ? null : directory.get(hash, nowMs);
  const isTrusted = directory.isTrusted(nowMs);
  if (hash === null || cached !== undefined || !isTrusted) {
    return count(counting, exchange, { endpoint, once, record: cached ?? null, isTrusted, nowMs });
  }
  return lookUpAndCount(counting, exchange, { hash, endpoint, once });
}

async function lookUpAndCount(
  counting: Counting,
  exchange: Exchange,
  { hash, endpoint, once }: KeyLookup & { readonly hash: KeyHash },
): Promise<CountedKey> {
  const { directory, clock, addressOf } = counting;
  const isGathered = isAddressFull(counting, exchange, endpoint);
  const record = await directory.lookUp(hash, addressOf(exchange), { isGathered });
  // Trusted: the caller has checked that, and the answer of the database is less than a second old.
  return count(counting, exchange, { endpoint, once, record, isTrusted: true, nowMs: clock.monotonicMs() });
}

/** Counts a request once more with the key that was found for it, outside every bundle. */
export function countAgain(
  counting: Counting,
  exchange: Exchange,
  { endpoint, record }: { readonly endpoint: LimitedEndpoint; readonly record: KeyRecord },
): Eventually<CountedKey> {
  const nowMs = counting.clock.monotonicMs();
  const isTrusted = counting.directory.isTrusted(nowMs);
  return count(counting, exchange, { endpoint, record, isTrusted, nowMs });
}

function count(counting: Counting, exchange: Exchange, found: Found): Eventually<CountedKey> {
  return hasOwnWindow(found)
    ? countForKey(counting, exchange, found)
    : countForAddress(counting, exchange, found);
}

/** Tells whether the key of a request has a window: it was issued, and is not revoked. */
function hasOwnWindow(found: Found): found is Found & { readonly record: KeyRecord } {
  return found.record !== null && found.record.state !== "revoked";
}

function countForAddress(
  { limiter, addressOf }: Counting,
  exchange: Exchange,
  { endpoint, record, isTrusted, nowMs }: Found,
): CountedKey {
  if (!isTrusted) return UNAVAILABLE;
  // Only the log needs the record of a revoked key.
  if (record !== null) exchange.record = record;
  exchange.verdict = limiter.windows[endpoint].byAddress.take(addressOf(exchange), nowMs);
  return exchange.verdict.allowed ? record : RATE_LIMITED;
}

function countForKey(
  counting: Counting,
  exchange: Exchange,
  { endpoint, once, record, isTrusted, nowMs }: Found & { readonly record: KeyRecord },
): Eventually<CountedKey> {
  exchange.record = record;
  const { byKey } = counting.limiter.windows[endpoint];
  // Only the database can count in a window that several processes share.
  if (!isTrusted && !(byKey instanceof WindowTable)) return UNAVAILABLE;
  const hasBundle = once !== undefined && refusalOf(record, counting.clock.nowMs()) === undefined;
  const bundle = hasBundle ? once : undefined;
  const isFree = bundle?.wasCounted(record) ?? false;
  if (isFree instanceof Promise) {
    return countAfterBundle(counting, exchange, { settled: isFree, hash: record, endpoint, once });
  }
  const verdict = isFree ? byKey.peek(record, nowMs) : byKey.take(record, nowMs);
  if (verdict instanceof Promise) {
    const outcome = countLater(counting, exchange, { verdict, endpoint, record, isFree });
    if (!isFree) bundle?.note(record, wasAdmitted(outcome));
    return outcome;
  }
  exchange.verdict = verdict;
  if (!isFree) {
    if (!verdict.allowed) return RATE_LIMITED;
    bundle?.note(record, true);
  }
  return isTrusted ? record : UNAVAILABLE;
}

/** Waits until another request of the bundle was counted or refused, and begins again with the look-up. */
async function countAfterBundle(
  counting: Counting,
  exchange: Exchange,
  { settled, ...lookup }: KeyLookup & { readonly settled: Promise<boolean> },
): Promise<CountedKey> {
  await settled;
  return isAnswerable(counting, exchange) ? await findAndCount(counting, exchange, lookup) : UNAVAILABLE;
}

interface SharedCount {
  /** What the shared window says. */
  readonly verdict: Promise<Verdict>;
  readonly endpoint: LimitedEndpoint;
  readonly record: KeyRecord;
  /** Whether the request only looked at the window. */
  readonly isFree: boolean;
}

/**
 * Waits for the verdict of a shared window, and then reads the key again: it may have been changed meanwhile. If it
 * was revoked, the request counts in the window of its address instead.
 */
async function countLater(
  counting: Counting,
  exchange: Exchange,
  { verdict, endpoint, record: before, isFree }: SharedCount,
): Promise<CountedKey> {
  const { directory, clock, addressOf } = counting;
  exchange.verdict = await verdict;
  if (!isAnswerable(counting, exchange)) return UNAVAILABLE;
  const cached = directory.get(before);
  const record = cached === undefined ? await directory.lookUp(before, addressOf(exchange)) : cached;
  if (!isAnswerable(counting, exchange)) return UNAVAILABLE;
  if (record === null || record.state === "revoked") {
    takeBack(counting, exchange, endpoint);
    const nowMs = clock.monotonicMs();
    return countForAddress(counting, exchange, { endpoint, record, isTrusted: true, nowMs });
  }
  exchange.record = record;
  return isFree || exchange.verdict.allowed ? record : RATE_LIMITED;
}

async function wasAdmitted(outcome: Promise<CountedKey>): Promise<boolean> {
  return !isRefusal(await outcome.catch(() => UNAVAILABLE));
}

/**
 * Counts the events of a batch in the window of single events, all or none. The request itself was counted before. Returns
 * what to take back if the events are not stored, or the refusal if there is too little room. After a refusal the headers of the answer describe this window.
 */
export function countEvents(
  counting: Counting,
  exchange: Exchange,
  { record, units }: { readonly record: KeyRecord; readonly units: number },
): Eventually<Verdict | Refusal> {
  const { byKey } = counting.limiter.windows.analytics;
  const verdict = byKey.takeMany(record, counting.clock.monotonicMs(), units);
  const settle = (counted: Verdict) => {
    if (counted.allowed && isAnswerable(counting, exchange)) return counted;
    if (counted.allowed) {
      byKey.takeBack(record, counted, counting.clock.monotonicMs());
      return UNAVAILABLE;
    }
    exchange.verdict = counted;
    const { limit, remaining } = counted;
    return refuse(
      "RATE_LIMIT_EXCEEDED",
      `Too many events within a minute: of ${limit} there is room for ${remaining} now, and the batch has ${units}`,
    );
  };
  return verdict instanceof Promise ? verdict.then(settle) : settle(verdict);
}

/** Tells whether the cache can be trusted, and the rest of the request's time is enough for an answer. */
function isAnswerable({ directory, clock }: Counting, { lookUpBeganMs = 0 }: Exchange): boolean {
  const nowMs = clock.monotonicMs();
  return directory.isTrusted(nowMs) && nowMs - lookUpBeganMs < MAX_COUNTING_MS;
}

/** Counts a request in the window of its address, and does not refuse it if the window is full. */
export function countAgainstAddress(
  { limiter, clock, addressOf }: Counting,
  exchange: Exchange,
  endpoint: LimitedEndpoint,
): void {
  exchange.verdict = limiter.windows[endpoint].byAddress.record(addressOf(exchange), clock.monotonicMs());
}

/** Takes back the count of a request, from the window that has counted it. */
export function takeBack(
  { limiter, clock, addressOf }: Counting,
  exchange: Exchange,
  endpoint: LimitedEndpoint,
): void {
  const { byKey, byAddress } = limiter.windows[endpoint];
  const { verdict, record } = exchange;
  const nowMs = clock.monotonicMs();
  if (verdict === undefined) exchange.verdict = byAddress.peek(addressOf(exchange), nowMs);
  else if (record === undefined) exchange.verdict = byAddress.takeBack(addressOf(exchange), verdict, nowMs);
  else exchange.verdict = byKey.takeBack(record, verdict, nowMs);
}

/** Tells whether the window of the request's address is full; then look-ups for the address are gathered. */
export function isAddressFull(
  { limiter, clock, addressOf }: Counting,
  exchange: Exchange,
  endpoint: LimitedEndpoint,
): boolean {
  return !limiter.windows[endpoint].byAddress.peek(addressOf(exchange), clock.monotonicMs()).allowed;
}

/**
 * Reads the key of a request, looks it up, counts the request, and checks the key, in the order of the contract:
 *
 *     key present → key format → look-up, which chooses the window → rate limit → known and active → not
 *     expired
 *
 * If the key was issued and is not revoked, the request counts in the window of the key, otherwise in the window
 * of the client address. A request that is refused before a window was chosen is counted in the window of its
 * address, but is not refused when that window is full (see `serve.ts`).
 *
 * The look-up comes before the limit: the requests of one client must not block a valid key of another client
 * behind the same address. Made-up keys must still be cheap, so the look-ups of an address whose window is full
 * are gathered (see `database/look_up_queue.ts`).
 */
import { LRUCache } from "lru-cache";
import { toClientGroup, type Verdict, WindowTable } from "../base/rate_limits/mod.ts";
import { isRefusal, type Refusal, refuse } from "../base/refusal.ts";
import {
  CLIENT_REFUSALS,
  createKeyHasher,
  INVALID_KEY,
  type KeyHash,
  type KeyRecord,
  keyForm,
  keyPattern,
} from "../licensing/keys/mod.ts";
import type { LimitedEndpoint } from "../wire/mod.ts";
import { andThen, type Eventually, type JsonObject } from "../wire/mod.ts";
import type { AppOptions } from "./app_options.ts";
import type { Exchange, Outcome } from "./exchange.ts";
import { readKey } from "./read_key.ts";

type AuthenticatorOptions = Pick<
  AppOptions,
  "directory" | "limiter" | "brand" | "trustedProxies" | "clock" | "sha256"
>;

export interface FoundKey {
  readonly hash: KeyHash;
  /** Null for a key that was never issued. */
  readonly record: KeyRecord | null;
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

export interface Authenticator {
  /** Reads the key, looks it up and counts the request; does not check the state of the key. */
  identify(exchange: Exchange, endpoint: LimitedEndpoint, body: JsonObject): Eventually<FoundKey | Refusal>;
  /** Does the same as {@linkcode identify}, and refuses a key that is not active or has expired. */
  authenticate(
    exchange: Exchange,
    endpoint: LimitedEndpoint,
    body: JsonObject,
    once?: CountOnce,
  ): Eventually<KeyRecord | Refusal>;
  /** Does the same as {@linkcode authenticate} for a link with the UUID of its key; null for an invalid link. */
  authenticateLink(
    exchange: Exchange,
    endpoint: LimitedEndpoint,
    keyUuid: string | null,
    once: CountOnce,
  ): Promise<KeyRecord | Refusal>;
  /** Counts a request that was free as one of a bundle, but must count after all: a refusal, or a whole file. */
  countAfterAll(exchange: Exchange, endpoint: LimitedEndpoint): Eventually<Refusal | undefined>;
  /** Takes back the count of a request if the service itself failed, so that the client does not pay for it. */
  takeBack(exchange: Exchange, endpoint: LimitedEndpoint): void;
  /** Counts a request in the window of its address, and does not refuse it if the window is full. */
  countAgainstAddress(exchange: Exchange, endpoint: LimitedEndpoint): void;
  /** Notes the answer for the key of the request, if the key was issued. */
  noteAnswer(exchange: Exchange, outcome: Outcome, endpoint: string): void;
  /** Tells whether the window of the request's address is full; then look-ups for the address are gathered. */
  isAddressFull(exchange: Exchange, endpoint: LimitedEndpoint): boolean;
  /** Returns the group of client addresses that the request came from. */
  addressOf(exchange: Exchange): string;
}

/** The key to look up, and the window that will count the request; `hash` is null for an invalid link. */
interface KeyLookup {
  readonly hash: KeyHash | null;
  readonly endpoint: LimitedEndpoint;
  readonly once?: CountOnce | undefined;
}

/** The key that was found, if any. */
interface LookupResult extends Omit<KeyLookup, "hash"> {
  readonly record: KeyRecord | null;
  /** False while the database does not answer: the record may be out of date. */
  readonly isTrusted: boolean;
  /** By the monotonic clock. */
  readonly nowMs: number;
}

const UNKNOWN_KEY = refuse("INVALID_KEY", INVALID_KEY, { reason: "unknown" });
const INVALID_LINK = refuse(
  "INVALID_LINK",
  "The download link has expired or was altered: list the models again for a new link",
);
const MISSING_KEY = refuse(
  "MISSING_KEY",
  "An API key is required: send it in the header X-API-Key (Authorization is not read)",
);
export const RATE_LIMITED = CLIENT_REFUSALS.too_many_requests;
const UNAVAILABLE = refuse(
  "SERVICE_UNAVAILABLE",
  "The service cannot answer now: its database does not respond; try again",
);

/**
 * The longest time from the first look-up of a request until a shared window has counted it. What follows takes up to
 * 3 s, and no answer may take longer than 5 s.
 */
const MAX_COUNTING_MS = 2_000;

/** How many addresses are kept with their group: parsing an address takes as long as answering a request. */
const MAX_GROUPS = 10_000;

/**
 * Creates the authenticator of all endpoints.
 *
 * One long function, because its small functions share the windows, the directory and the clock.
 */
export function createAuthenticator(options: AuthenticatorOptions): Authenticator {
  const { directory, limiter, trustedProxies, clock } = options;
  const pattern = keyPattern(options.brand);
  const hashKey = createKeyHasher(options.sha256);
  const invalidFormat = refuse("INVALID_FORMAT", `The API key must be ${keyForm(options.brand)}`);

  const groups = new LRUCache<string, string>({ max: MAX_GROUPS });

  function addressOf(exchange: Exchange): string {
    exchange.address ??= findAddress(exchange);
    return exchange.address;
  }

  function findAddress(exchange: Exchange): string {
    const { headers } = exchange.request;
    const forwardedFor = trustedProxies.length === 0 ? null : headers.get("x-forwarded-for");
    const address = exchange.peerAddress();
    if (forwardedFor !== null) return toClientGroup({ peer: address, forwardedFor, trustedProxies });
    const known = groups.get(address);
    if (known !== undefined) return known;
    const group = toClientGroup({ peer: address, trustedProxies });
    groups.set(address, group);
    return group;
  }

  function countAgainstAddress(exchange: Exchange, endpoint: LimitedEndpoint): void {
    exchange.verdict = limiter.windows[endpoint].byAddress.record(addressOf(exchange), clock.monotonicMs());
  }

  function takeBack(exchange: Exchange, endpoint: LimitedEndpoint): void {
    const { byKey, byAddress } = limiter.windows[endpoint];
    const { verdict, record } = exchange;
    const nowMs = clock.monotonicMs();
    if (verdict === undefined) exchange.verdict = byAddress.peek(addressOf(exchange), nowMs);
    else if (record === undefined) exchange.verdict = byAddress.takeBack(addressOf(exchange), verdict, nowMs);
    else exchange.verdict = byKey.takeBack(record, verdict, nowMs);
  }

  /** Returns the hash of the key that the request carries. */
  function readHash(exchange: Exchange, body: JsonObject): KeyHash | Refusal {
    const key = readKey(exchange.request, body);
    if (key === undefined) return MISSING_KEY;
    if (isRefusal(key)) return key;
    return typeof key === "string" && pattern.test(key) ? hashKey(key) : invalidFormat;
  }

  /** Counts the request in the window of its key, or of its address if the key was not issued or is revoked. */
  function count(
    exchange: Exchange,
    { endpoint, once, record, isTrusted, nowMs }: LookupResult,
  ): Eventually<KeyRecord | null | Refusal> {
    const { byKey, byAddress } = limiter.windows[endpoint];
    if (record === null || record.state === "revoked") {
      if (!isTrusted) return UNAVAILABLE;
      // Only the log needs the record: a revoked key counts in the window of its address.
      if (record !== null) exchange.record = record;
      exchange.verdict = byAddress.take(addressOf(exchange), nowMs);
      return exchange.verdict.allowed ? record : RATE_LIMITED;
    }
    exchange.record = record;
    // Only the database can count in a window that several processes share.
    if (!isTrusted && !(byKey instanceof WindowTable)) return UNAVAILABLE;
    const bundle = once !== undefined && refusalFor(record) === undefined ? once : undefined;
    const isFree = bundle?.wasCounted(record) ?? false;
    if (isFree instanceof Promise) return findAfter(isFree, exchange, { hash: record, endpoint, once });
    const verdict = isFree ? byKey.peek(record, nowMs) : byKey.take(record, nowMs);
    if (verdict instanceof Promise) {
      const outcome = countLater(exchange, verdict, { endpoint, before: record, isFree });
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

  /**
   * Waits for the verdict of a shared window, and then reads the key again: it may have been changed meanwhile. If it
   * was revoked, the request counts in the window of its address instead.
   */
  async function countLater(
    exchange: Exchange,
    counting: Promise<Verdict>,
    { endpoint, before, isFree }: { endpoint: LimitedEndpoint; before: KeyRecord; isFree: boolean },
  ): Promise<KeyRecord | null | Refusal> {
    exchange.verdict = await counting;
    if (!isAnswerable(exchange)) return UNAVAILABLE;
    const cached = directory.get(before);
    const record = cached === undefined ? await directory.lookUp(before, addressOf(exchange)) : cached;
    if (!isAnswerable(exchange)) return UNAVAILABLE;
    if (record === null || record.state === "revoked") {
      takeBack(exchange, endpoint);
      return count(exchange, { endpoint, record, isTrusted: true, nowMs: clock.monotonicMs() });
    }
    exchange.record = record;
    return isFree || exchange.verdict.allowed ? record : RATE_LIMITED;
  }

  /** Tells whether the cache can be trusted, and the rest of the request's time is enough for an answer. */
  function isAnswerable({ lookUpBeganMs = 0 }: Exchange): boolean {
    const nowMs = clock.monotonicMs();
    return directory.isTrusted(nowMs) && nowMs - lookUpBeganMs < MAX_COUNTING_MS;
  }

  /**
   * Looks a key up and counts the request, without a promise if the key is in the cache. It contains no closure, and
   * nor does `count`: the runtime would allocate the captured variables at every call, also when it creates no closure.
   */
  function find(exchange: Exchange, lookup: KeyLookup): Eventually<KeyRecord | null | Refusal> {
    const { hash, endpoint, once } = lookup;
    const nowMs = clock.monotonicMs();
    exchange.lookUpBeganMs ??= nowMs;
    const cached = hash === null ? null : directory.get(hash, nowMs);
    const isTrusted = directory.isTrusted(nowMs);
    if (hash === null || cached !== undefined || !isTrusted) {
      return count(exchange, { endpoint, once, record: cached ?? null, isTrusted, nowMs });
    }
    return lookUp(exchange, hash, lookup);
  }

  /** Finds the key of a request again after another request of its bundle was counted or refused. */
  async function findAfter(counting: Promise<boolean>, exchange: Exchange, lookup: KeyLookup) {
    await counting;
    return isAnswerable(exchange) ? await find(exchange, lookup) : UNAVAILABLE;
  }

  function isAddressFull(exchange: Exchange, endpoint: LimitedEndpoint): boolean {
    const { byAddress } = limiter.windows[endpoint];
    return !byAddress.peek(addressOf(exchange), clock.monotonicMs()).allowed;
  }

  async function lookUp(
    exchange: Exchange,
    hash: KeyHash,
    { endpoint, once }: KeyLookup,
  ): Promise<KeyRecord | null | Refusal> {
    const record = await directory.lookUp(hash, addressOf(exchange), {
      isGathered: isAddressFull(exchange, endpoint),
    });
    // Trusted: `find` has checked that, and the answer of the database is less than a second old.
    return count(exchange, { endpoint, once, record, isTrusted: true, nowMs: clock.monotonicMs() });
  }

  /** Returns the refusal for a key that is not active or has expired. */
  function refusalFor(record: KeyRecord): Refusal | undefined {
    if (record.state !== "active") return CLIENT_REFUSALS[record.state];
    return record.expiresAtMs <= clock.nowMs() ? CLIENT_REFUSALS.expired : undefined;
  }

  function requireUsable(record: KeyRecord | null | Refusal): KeyRecord | Refusal {
    if (record === null) return UNKNOWN_KEY;
    if (isRefusal(record)) return record;
    const refusal = refusalFor(record);
    if (refusal !== undefined) return refusal;
    directory.markUsed(record);
    return record;
  }

  function countAfterAll(exchange: Exchange, endpoint: LimitedEndpoint): Eventually<Refusal | undefined> {
    const { record } = exchange;
    if (record === undefined) return undefined;
    const nowMs = clock.monotonicMs();
    const counted = count(exchange, { endpoint, record, isTrusted: directory.isTrusted(nowMs), nowMs });
    return andThen(andThen(counted, requireUsable), (usable) => (isRefusal(usable) ? usable : undefined));
  }

  return {
    identify(exchange, endpoint, body) {
      const hash = readHash(exchange, body);
      if (isRefusal(hash)) return hash;
      return andThen(find(exchange, { hash, endpoint }), (record) =>
        isRefusal(record) ? record : { hash, record },
      );
    },
    authenticate(exchange, endpoint, body, once) {
      const hash = readHash(exchange, body);
      return isRefusal(hash) ? hash : andThen(find(exchange, { hash, endpoint, once }), requireUsable);
    },
    async authenticateLink(exchange, endpoint, keyUuid, once) {
      if (!directory.isTrusted()) return UNAVAILABLE;
      const hash = keyUuid === null ? null : await directory.hashOf(keyUuid);
      const record = await find(exchange, { hash, endpoint, once });
      // Not INVALID_KEY: the key may be valid, and a client would delete its key after that answer.
      return keyUuid === null && record === null ? INVALID_LINK : requireUsable(record);
    },
    countAfterAll,
    countAgainstAddress,
    noteAnswer({ record }, outcome, endpoint) {
      if (record !== undefined)
        directory.noteAnswer(record, isRefusal(outcome) ? outcome : undefined, endpoint);
    },
    takeBack,
    isAddressFull,
    addressOf,
  };
}

async function wasAdmitted(outcome: Promise<KeyRecord | null | Refusal>): Promise<boolean> {
  return !isRefusal(await outcome.catch(() => UNAVAILABLE));
}

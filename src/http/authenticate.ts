/**
 * Where a request's key is read, looked up, limited and judged, in the order that the contract gives:
 *
 *     key present → key format → look-up, which chooses the window → rate limit → known and active → not
 *     expired
 *
 * The window is the key's own where the key was issued and is not revoked, and the client address's
 * otherwise. A request that is refused before a window was chosen is counted against its address, without
 * being refused for it (see `serve.ts`).
 *
 * The look-up comes before the limit, because a good key must not be refused for what a neighbour behind the same
 * address did. Made-up keys must be cheap all the same, so the look-ups of an address whose window is full are
 * gathered (see `keys/look_up_queue.ts`).
 */
import { LRUCache } from "lru-cache";
import type { Brand } from "../brand.ts";
import type { Clock } from "../clock.ts";
import type { LimitedEndpoint } from "../endpoints.ts";
import { createKeyHasher, type KeyDirectory, type KeyHash, type KeyRecord, keyPattern } from "../keys/mod.ts";
import { type Limiter, type TrustedProxies, toClientGroup } from "../limits/mod.ts";
import type { Platform } from "../platform/mod.ts";
import { isRefusal, type Refusal, refuse } from "../refusal.ts";
import { andThen, type Eventually } from "./eventually.ts";
import type { Exchange } from "./exchange.ts";
import type { JsonObject } from "./read_body.ts";
import { readQuery } from "./target.ts";

export interface AuthenticatorOptions {
  readonly directory: KeyDirectory;
  readonly limiter: Limiter<LimitedEndpoint>;
  readonly brand: Brand;
  readonly trustedProxies: TrustedProxies;
  readonly clock: Clock;
  readonly sha256: Platform["sha256"];
}

export interface Found {
  readonly hash: KeyHash;
  /** Null for a key that was never issued. */
  readonly record: KeyRecord | null;
}

/**
 * For requests of which a whole bundle counts as one: once the first was counted, it stands for the rest. Only
 * requests with a key that is active and not expired are bundled: every other request counts.
 */
export interface CountOnce {
  wasCounted(record: KeyRecord): boolean;
  /** Called when one of them was counted. */
  note(record: KeyRecord): void;
}

export interface Authenticator {
  /** Reads the key, looks it up and counts the request; does not judge the key. */
  identify(exchange: Exchange, endpoint: LimitedEndpoint, body: JsonObject): Eventually<Found | Refusal>;
  /** {@linkcode identify}, and the key must be active and not expired. */
  authenticate(
    exchange: Exchange,
    endpoint: LimitedEndpoint,
    body: JsonObject,
    once?: CountOnce,
  ): Eventually<KeyRecord | Refusal>;
  /** {@linkcode authenticate} for a link that names its key by UUID; null for a link that is no good. */
  authenticateLink(
    exchange: Exchange,
    endpoint: LimitedEndpoint,
    keyUuid: string | null,
    once: CountOnce,
  ): Promise<KeyRecord | Refusal>;
  /** Counts a request that was not counted as a part of its bundle, when it turns out to be none. */
  countAfterAll(exchange: Exchange, endpoint: LimitedEndpoint): Refusal | undefined;
  /** Takes back what {@linkcode identify} or another of these has counted, for an answer that is our own failure. */
  takeBack(exchange: Exchange, endpoint: LimitedEndpoint): void;
  /** Counts a request against its address without refusing it for that. */
  countAgainstAddress(exchange: Exchange, endpoint: LimitedEndpoint): void;
  /** Counts a refusal for the key that the request carried, where that is one that was issued. */
  noteRefusal(exchange: Exchange, refusal: Refusal): void;
  /** Whether the window of the request's address is full: then look-ups for the address are gathered. */
  isAddressFull(exchange: Exchange, endpoint: LimitedEndpoint): boolean;
  /** The group of client addresses that the request came from. */
  addressOf(exchange: Exchange): string;
}

/** What is looked for and counted; `hash` is null for a link that is no good. */
interface Sought {
  readonly hash: KeyHash | null;
  readonly endpoint: LimitedEndpoint;
  readonly once?: CountOnce | undefined;
}

/** What a look-up came to, and whether it may be trusted. */
interface Counted extends Omit<Sought, "hash"> {
  readonly record: KeyRecord | null;
  readonly isTrusted: boolean;
  /** By the monotonic clock. */
  readonly nowMs: number;
}

const INVALID = "The API key is invalid or inactive";
const UNKNOWN_KEY = refuse("INVALID_KEY", INVALID, { reason: "unknown" });
const INACTIVE_KEY = {
  suspended: refuse("INVALID_KEY", INVALID, { reason: "suspended" }),
  revoked: refuse("INVALID_KEY", INVALID, { reason: "revoked" }),
} as const;
const INVALID_LINK = refuse(
  "INVALID_LINK",
  "The download link has expired or was altered: list the models again for a new link",
);
const KEY_EXPIRED = refuse("KEY_EXPIRED", "The API key has expired", { reason: "expired" });
const MISSING_KEY = refuse(
  "MISSING_KEY",
  "An API key is required: send it in the header X-API-Key (Authorization is not read)",
);
const DIFFERENT_KEYS = refuse("INVALID_REQUEST", "The request carries two different API keys");
const RATE_LIMITED = refuse("RATE_LIMIT_EXCEEDED", "Too many requests: wait as Retry-After says");
const UNAVAILABLE = refuse(
  "SERVICE_UNAVAILABLE",
  "The service cannot answer now: its database does not respond; try again",
);

/** Addresses whose group is remembered: to read one takes as long as to answer. */
const MAX_GROUPS = 10_000;

export function createAuthenticator(options: AuthenticatorOptions): Authenticator {
  const { directory, limiter, trustedProxies, clock } = options;
  const pattern = keyPattern(options.brand);
  const hashKey = createKeyHasher(options.sha256);
  const { name } = options.brand;
  const invalidFormat = refuse(
    "INVALID_FORMAT",
    `The API key must be ${name}_live_ or ${name}_test_ and 48 lowercase hexadecimal digits`,
  );

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

  /** The hash of the key that the request carries. */
  function readHash(exchange: Exchange, body: JsonObject): KeyHash | Refusal {
    const key = readKey(exchange.request, body);
    if (key === undefined) return MISSING_KEY;
    if (isRefusal(key)) return key;
    return typeof key === "string" && pattern.test(key) ? hashKey(key) : invalidFormat;
  }

  /** Counts the request in the window that its key, or the lack of one, has chosen. */
  function count(
    exchange: Exchange,
    { endpoint, once, record, isTrusted, nowMs }: Counted,
  ): KeyRecord | null | Refusal {
    const { byKey, byAddress } = limiter.windows[endpoint];
    if (record === null || record.state === "revoked") {
      if (!isTrusted) return UNAVAILABLE;
      // For the log alone: the window of a revoked key is its address's.
      if (record !== null) exchange.record = record;
      exchange.verdict = byAddress.take(addressOf(exchange), nowMs);
    } else {
      exchange.record = record;
      const bundle = once !== undefined && findFlaw(record) === undefined ? once : undefined;
      if (bundle?.wasCounted(record)) {
        exchange.verdict = byKey.peek(record, nowMs);
        return isTrusted ? record : UNAVAILABLE;
      }
      exchange.verdict = byKey.take(record, nowMs);
      if (exchange.verdict.allowed) bundle?.note(record);
    }
    if (!exchange.verdict.allowed) return RATE_LIMITED;
    return isTrusted ? record : UNAVAILABLE;
  }

  /**
   * Looks a key up and counts the request: at once where the key is at hand. Holds no closure: room for the
   * variables that one captures would be made at every call, also where it is never reached.
   */
  function find(exchange: Exchange, sought: Sought): Eventually<KeyRecord | null | Refusal> {
    const { hash, endpoint, once } = sought;
    const nowMs = clock.monotonicMs();
    const cached = hash === null ? null : directory.get(hash, nowMs);
    const isTrusted = directory.isTrusted(nowMs);
    if (hash === null || cached !== undefined || !isTrusted) {
      return count(exchange, { endpoint, once, record: cached ?? null, isTrusted, nowMs });
    }
    return lookUp(exchange, hash, sought);
  }

  function isAddressFull(exchange: Exchange, endpoint: LimitedEndpoint): boolean {
    const { byAddress } = limiter.windows[endpoint];
    return !byAddress.peek(addressOf(exchange), clock.monotonicMs()).allowed;
  }

  async function lookUp(
    exchange: Exchange,
    hash: KeyHash,
    { endpoint, once }: Sought,
  ): Promise<KeyRecord | null | Refusal> {
    const record = await directory.lookUp(hash, addressOf(exchange), {
      isGathered: isAddressFull(exchange, endpoint),
    });
    // Trusted: `find` has asked, and the answer of the database is less than a second old.
    return count(exchange, { endpoint, once, record, isTrusted: true, nowMs: clock.monotonicMs() });
  }

  function findFlaw(record: KeyRecord): Refusal | undefined {
    if (record.state !== "active") return INACTIVE_KEY[record.state];
    return record.expiresAtMs <= clock.nowMs() ? KEY_EXPIRED : undefined;
  }

  function judge(record: KeyRecord | null | Refusal): KeyRecord | Refusal {
    if (record === null) return UNKNOWN_KEY;
    if (isRefusal(record)) return record;
    const flaw = findFlaw(record);
    if (flaw !== undefined) return flaw;
    directory.markUsed(record);
    return record;
  }

  function countAfterAll(exchange: Exchange, endpoint: LimitedEndpoint): Refusal | undefined {
    if (exchange.record === undefined) return undefined;
    exchange.verdict = limiter.windows[endpoint].byKey.take(exchange.record, clock.monotonicMs());
    return exchange.verdict.allowed ? undefined : RATE_LIMITED;
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
      return isRefusal(hash) ? hash : andThen(find(exchange, { hash, endpoint, once }), judge);
    },
    async authenticateLink(exchange, endpoint, keyUuid, once) {
      if (!directory.isTrusted()) return UNAVAILABLE;
      const hash = keyUuid === null ? null : await directory.hashOf(keyUuid);
      const record = await find(exchange, { hash, endpoint, once });
      // The key may be good: a client that is told otherwise throws it away.
      return keyUuid === null && record === null ? INVALID_LINK : judge(record);
    },
    countAfterAll,
    countAgainstAddress,
    noteRefusal({ record }, refusal) {
      if (record !== undefined) directory.noteRefusal(record, refusal);
    },
    takeBack,
    isAddressFull,
    addressOf,
  };
}

/**
 * The key from the header, the body or, for GET alone, the query; undefined where there is none. An empty
 * one is none. What a body holds in its place is returned as it is, for its format to be judged.
 */
function readKey(request: Request, body: JsonObject): unknown {
  const header = request.headers.get("x-api-key") || undefined;
  if (request.method !== "GET") return chooseKey(header, body.api_key);
  let key: unknown = header;
  for (const candidate of readQuery(request).getAll("api_key")) {
    key = chooseKey(key, candidate);
    if (isRefusal(key)) return key;
  }
  return key;
}

/** The one of two places that carries a key; both may, where it is the same. */
function chooseKey(key: unknown, candidate: unknown): unknown {
  if (candidate === undefined || candidate === null || candidate === "") return key;
  if (key === undefined || key === candidate) return candidate;
  return typeof candidate === "string" ? DIFFERENT_KEYS : candidate;
}

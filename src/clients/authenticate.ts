/**
 * Reads the key of a request, looks it up, counts the request, and checks the key, in the order of the contract:
 *
 *     key present → key format → look-up, which chooses the window → rate limit → known and active → not
 *     expired
 *
 * If the key was issued and is not revoked, the request counts in the window of the key, otherwise in the window of
 * the client address (see `count_request.ts`). A request that is refused before a window was chosen is counted in the
 * window of its address, but is not refused when that window is full (see `serve.ts`).
 *
 * The look-up comes before the limit: the requests of one client must not block a valid key of another client
 * behind the same address. Made-up keys must still be cheap, so the look-ups of an address whose window is full
 * are gathered (see `database/look_up_queue.ts`).
 */
import type { Actor } from "../audit/mod.ts";
import { isRefusal, type Refusal, refuse } from "../base/refusal.ts";
import { createKeyHasher, type KeyHash, type KeyRecord, keyForm, keyPattern } from "../licensing/keys/mod.ts";
import { startTerm } from "../licensing/mod.ts";
import { andThen, type Eventually, type JsonObject, type LimitedEndpoint } from "../wire/mod.ts";
import { createAddressReader } from "./address_reader.ts";
import type { AppOptions } from "./app_options.ts";
import {
  type CountedKey,
  type Counting,
  type CountOnce,
  countAgain,
  countAgainstAddress,
  countEvents,
  findAndCount,
  isAddressFull,
  takeBack,
  UNAVAILABLE,
} from "./count_request.ts";
import type { Exchange, Outcome } from "./exchange.ts";
import { readKey } from "./read_key.ts";
import { QUOTA_EXCEEDED } from "./received_event.ts";
import { refusalOf, UNKNOWN_KEY } from "./usable_key.ts";

type AuthenticatorOptions = Pick<
  AppOptions,
  "directory" | "licenseChanges" | "limiter" | "brand" | "trustedProxies" | "clock" | "sha256"
>;

interface FoundKey {
  readonly hash: KeyHash;
  /** Null for a key that was never issued. */
  readonly record: KeyRecord | null;
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
  /**
   * Starts the term of the license of the request's key, which `authenticate` returned as unstarted. Returns the key as
   * it is afterwards, with its end, or a refusal if it was changed meanwhile. Throws `DatabaseUnavailable`.
   */
  startTerm(exchange: Exchange, record: KeyRecord): Promise<KeyRecord | Refusal>;
  /** Counts a request that was free as one of a bundle, but must count after all: a refusal, or a whole file. */
  countAfterAll(exchange: Exchange, endpoint: LimitedEndpoint): Eventually<Refusal | undefined>;
  /**
   * Counts the events of a batch in the window of single events: all of them, or none and a refusal. `takeBack` is for a
   * batch that the service itself could not store.
   */
  countEvents(
    exchange: Exchange,
    counted: { readonly record: KeyRecord; readonly units: number },
  ): Eventually<{ readonly takeBack: () => void } | Refusal>;
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
  /** Returns who makes the changes of the request, as the audit log names it. */
  actorOf(exchange: Exchange): Actor;
}

/**
 * The longest time from the first look-up of a request until the term of its license starts, or the key is looked up again.
 * What follows takes up to 2.5 s, and no answer may take longer than 5 s.
 */
const MAX_BEFORE_START_MS = 2_500;
const TOO_LATE = refuse(
  "SERVICE_UNAVAILABLE",
  "The service was too slow to start the term of the license; what was asked for may have been done; try again",
);

const INVALID_LINK = refuse(
  "INVALID_LINK",
  "The download link has expired or was altered: list the models again for a new link",
);
const MISSING_KEY = refuse(
  "MISSING_KEY",
  "An API key is required: send it in the header X-API-Key (Authorization is not read)",
);

/** Creates the authenticator of all endpoints. */
export function createAuthenticator(options: AuthenticatorOptions): Authenticator {
  const { directory, licenseChanges, limiter, clock } = options;
  const addressOf = createAddressReader(options.trustedProxies);
  const counting: Counting = { directory, limiter, clock, addressOf };
  const readHash = createHashReader(options);

  function actorOf(exchange: Exchange): Actor {
    const address = addressOf(exchange);
    return { kind: "http", name: address, address, request: exchange.id };
  }

  function requireUsable(counted: CountedKey): KeyRecord | Refusal {
    if (counted === null) return UNKNOWN_KEY;
    if (isRefusal(counted)) return counted;
    const refusal = refusalOf(counted, clock.nowMs());
    if (refusal !== undefined) return refusal;
    directory.markUsed(counted);
    return counted;
  }

  return {
    identify(exchange, endpoint, body) {
      const hash = readHash(exchange, body);
      if (isRefusal(hash)) return hash;
      return andThen(findAndCount(counting, exchange, { hash, endpoint }), (record) =>
        isRefusal(record) ? record : { hash, record },
      );
    },
    authenticate(exchange, endpoint, body, once) {
      const hash = readHash(exchange, body);
      if (isRefusal(hash)) return hash;
      return andThen(findAndCount(counting, exchange, { hash, endpoint, once }), requireUsable);
    },
    async authenticateLink(exchange, endpoint, keyUuid, once) {
      if (!directory.isTrusted()) return UNAVAILABLE;
      const hash = keyUuid === null ? null : await directory.hashOf(keyUuid);
      const record = await findAndCount(counting, exchange, { hash, endpoint, once });
      // Not INVALID_KEY: the key may be valid, and a client would delete its key after that answer.
      return keyUuid === null && record === null ? INVALID_LINK : requireUsable(record);
    },
    async startTerm(exchange, before) {
      const { lookUpBeganMs = 0 } = exchange;
      const isLate = () => clock.monotonicMs() - lookUpBeganMs > MAX_BEFORE_START_MS;
      if (isLate()) return TOO_LATE;
      const endsAt = await startTerm(licenseChanges, before, { actor: actorOf(exchange), now: clock.now() });
      if (endsAt !== undefined) {
        // Only for this answer, whose text is rendered again: the cache looks the key up at its next use.
        exchange.record = {
          ...before,
          state: "active",
          expiresAtMs: endsAt.getTime(),
          answeredUsage: undefined,
        };
        return exchange.record;
      }
      if (isLate()) return TOO_LATE;
      const record = await directory.lookUp(before, addressOf(exchange));
      if (record === null) return UNKNOWN_KEY;
      exchange.record = record;
      const refusal = refusalOf(record, clock.nowMs());
      // Still unstarted: an operator has given the license another term meanwhile.
      return refusal ?? (record.state === "unstarted" ? UNAVAILABLE : record);
    },
    countAfterAll(exchange, endpoint) {
      const { record } = exchange;
      if (record === undefined) return undefined;
      const usable = andThen(countAgain(counting, exchange, { endpoint, record }), requireUsable);
      return andThen(usable, (each) => (isRefusal(each) ? each : undefined));
    },
    countEvents: (exchange, counted) =>
      andThen(countEvents(counting, exchange, counted), (verdict) => {
        if (isRefusal(verdict)) return verdict;
        const { byKey } = limiter.windows.analytics;
        return { takeBack: () => void byKey.takeBack(counted.record, verdict, clock.monotonicMs()) };
      }),
    takeBack: (exchange, endpoint) => takeBack(counting, exchange, endpoint),
    countAgainstAddress: (exchange, endpoint) => countAgainstAddress(counting, exchange, endpoint),
    noteAnswer({ record, eventsOverQuota }, outcome, endpoint) {
      if (record === undefined) return;
      // Operators see a batch with refused events as a refusal of the key.
      const ofPart = eventsOverQuota > 0 ? QUOTA_EXCEEDED : undefined;
      directory.noteAnswer(record, isRefusal(outcome) ? outcome : ofPart, endpoint);
    },
    isAddressFull: (exchange, endpoint) => isAddressFull(counting, exchange, endpoint),
    addressOf,
    actorOf,
  };
}

/** Creates the function that returns the hash of the key that a request carries. */
function createHashReader({ brand, sha256 }: Pick<AuthenticatorOptions, "brand" | "sha256">) {
  const pattern = keyPattern(brand);
  const hashKey = createKeyHasher(sha256);
  const invalidFormat = refuse("INVALID_FORMAT", `The API key must be ${keyForm(brand)}`);
  return ({ request }: Exchange, body: JsonObject): KeyHash | Refusal => {
    const key = readKey(request, body);
    if (key === undefined) return MISSING_KEY;
    if (isRefusal(key)) return key;
    return typeof key === "string" && pattern.test(key) ? hashKey(key) : invalidFormat;
  };
}

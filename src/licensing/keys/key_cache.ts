/**
 * Caches keys by their hash.
 *
 * Every change that affects an answer belongs to a license, so the cache forgets keys by license, and receives new
 * counts by license. The difficult case is a look-up that begins before a change and ends after it. So while a look-up
 * runs, it keeps a list of the licenses that changed. The keys of these licenses are not cached when the look-up finds
 * them.
 *
 * A key that is requested often is moved to the end of the LRU list, and its age is checked, once in ten seconds.
 * Doing that on every request would cost half a microsecond of waiting for memory.
 */
import { LRUCache } from "lru-cache";
import type { Clock } from "../../base/clock.ts";
import { hasSameRest, type KeyHash, renderKeyHash } from "./key_hash.ts";
import { isNewer, type KeyRecord, type UsageCount, updateUsedCount } from "./key_record.ts";

interface KeyCacheOptions {
  readonly clock: Clock;
  /** The most keys to keep; fewer if many licenses have long values. */
  readonly maxKeys: number;
}

/** A look-up in progress; created by {@linkcode KeyCache.beginLookUp}. */
export interface LookUp {
  /** Caches the records that the look-up found, by hash, and caches the other `hashes` as unknown. */
  fill(hashes: readonly string[], found: ReadonlyMap<string, KeyRecord>): void;
  /** Ends the look-up. Must be called after `fill` and after a failure. */
  end(): void;
}

export interface KeyCache {
  /** Returns the key's record, null if the key is known not to exist, undefined if the key must be looked up. */
  get(hash: KeyHash, nowMs?: number): KeyRecord | null | undefined;
  beginLookUp(): LookUp;
  /** Forgets all keys of a license, also the keys of the license that a look-up in progress will find. */
  forgetLicense(licenseUuid: string): void;
  forgetAll(): void;
  /** Sets a license's count on its keys, unless they have a newer count. */
  updateUsedCount(licenseUuid: string, count: UsageCount): void;
  stats(): {
    readonly keys: number;
    readonly licenses: number;
    readonly unknownKeys: number;
    readonly hits: number;
    readonly misses: number;
  };
}

/** How long a key is returned without being moved to the end of the list. */
const UNMOVED_MS = 10_000;
/** The last resort: a key is returned for ten minutes at most. The pulse reports changes long before that. */
const MAX_AGE_MS = 600_000 - UNMOVED_MS;
/** Unknown keys are cached for less than a second, so that a key works within a second of being issued. */
const UNKNOWN_AGE_MS = 900;
const MAX_UNKNOWN = 10_000;

/** Most keys take much less, so that only many long values make the cache keep fewer keys. */
const BYTES_PER_KEY = 2_048;
const PLAIN_BYTES = 512;

/** Features and values are in the record and in the rendered answer; a character takes two bytes if one is beyond Latin-1. */
function sizeOf({ features, entitlements }: KeyRecord): number {
  const bytes = /[^\0-\xff]/.test(entitlements) ? 4 : 2;
  return PLAIN_BYTES + 2 * features.length + bytes * entitlements.length;
}

const EVEN_STALE = { allowStale: true };

/** The keys of a license. Most licenses have one key, which needs no set. */
type OneOrMore = KeyRecord | Set<KeyRecord>;

interface OpenLookUp {
  readonly beganMs: number;
  hasAllChanged: boolean;
  readonly changed: Set<string>;
  readonly counts: Map<string, UsageCount>;
}

/** Lets the keys of a license have one text of its values. */
function shareEntitlements(record: KeyRecord, others: OneOrMore | undefined): void {
  const [other] = others instanceof Set ? others : [others];
  if (other?.entitlements === record.entitlements) record.entitlements = other.entitlements;
}

/** Creates an empty cache. One long function, because its closures share the maps, the LRU list and the counters. */
export function createKeyCache({ clock, maxKeys }: KeyCacheOptions): KeyCache {
  const perf = { now: () => clock.monotonicMs() };
  let byLicense = new Map<string, OneOrMore>();
  const open = new Set<OpenLookUp>();
  let hits = 0;
  let misses = 0;

  /**
   * The records by the first six bytes of their hashes. Two keys with the same six bytes replace each other: that
   * costs a look-up and never causes a wrong answer.
   */
  let known = makeKnown();
  const unknown = new LRUCache<string, true>({ max: MAX_UNKNOWN, ttl: UNKNOWN_AGE_MS, perf });

  function makeKnown() {
    return new LRUCache<number, KeyRecord>({
      max: maxKeys,
      maxSize: maxKeys * BYTES_PER_KEY,
      sizeCalculation: sizeOf,
      ttl: MAX_AGE_MS,
      perf,
      disposeAfter(record) {
        const keys = byLicense.get(record.licenseUuid);
        if (keys === record) byLicense.delete(record.licenseUuid);
        if (keys instanceof Set && keys.delete(record) && keys.size === 0)
          byLicense.delete(record.licenseUuid);
      },
    });
  }

  function keep(record: KeyRecord) {
    known.set(record.hash0, record);
    record.movedAtMs = clock.monotonicMs();
    const keys = byLicense.get(record.licenseUuid);
    shareEntitlements(record, keys);
    if (keys === undefined) byLicense.set(record.licenseUuid, record);
    else if (keys instanceof Set) keys.add(record);
    else if (keys !== record) byLicense.set(record.licenseUuid, new Set([keys, record]));
  }

  /** Returns a copy, because forgetting a key changes the set. */
  function keysOf(licenseUuid: string): readonly KeyRecord[] {
    const keys = byLicense.get(licenseUuid);
    if (keys === undefined) return [];
    return keys instanceof Set ? [...keys] : [keys];
  }

  /** Tells whether the features of a license have changed by the clock alone, such as at the end of one. */
  function haveFeaturesChanged({ featuresChangeAtMs }: KeyRecord): boolean {
    return featuresChangeAtMs !== Number.POSITIVE_INFINITY && featuresChangeAtMs <= clock.nowMs();
  }

  /** Moves a key to the end of the list. Returns false if the key is too old. */
  function move(record: KeyRecord, nowMs: number): boolean {
    if (known.get(record.hash0) === undefined) return false;
    record.movedAtMs = nowMs;
    return true;
  }

  return {
    get(hash, nowMs = clock.monotonicMs()) {
      const record = known.peek(hash.hash0, EVEN_STALE);
      if (
        record !== undefined &&
        hasSameRest(record, hash) &&
        !haveFeaturesChanged(record) &&
        (nowMs - record.movedAtMs < UNMOVED_MS || move(record, nowMs))
      ) {
        hits++;
        return record;
      }
      misses++;
      return unknown.has(renderKeyHash(hash)) ? null : undefined;
    },
    beginLookUp() {
      const beganMs = clock.monotonicMs();
      const lookUp: OpenLookUp = { beganMs, hasAllChanged: false, changed: new Set(), counts: new Map() };
      open.add(lookUp);
      return {
        fill(hashes, found) {
          for (const hash of hashes) {
            const record = found.get(hash);
            if (record === undefined) {
              if (!lookUp.hasAllChanged) unknown.set(hash, true, { start: lookUp.beganMs });
              continue;
            }
            const count = lookUp.counts.get(record.licenseUuid);
            if (count !== undefined) updateUsedCount(record, count);
            if (!lookUp.hasAllChanged && !lookUp.changed.has(record.licenseUuid)) keep(record);
          }
        },
        end: () => void open.delete(lookUp),
      };
    },
    forgetLicense(licenseUuid) {
      for (const lookUp of open) lookUp.changed.add(licenseUuid);
      for (const { hash0 } of keysOf(licenseUuid)) known.delete(hash0);
    },
    forgetAll() {
      for (const lookUp of open) lookUp.hasAllChanged = true;
      // A new cache takes 1 ms; removing 50,000 keys one by one would block all requests for 60 ms.
      known = makeKnown();
      byLicense = new Map();
      unknown.clear();
    },
    updateUsedCount(licenseUuid, count) {
      for (const { counts } of open) {
        const noted = counts.get(licenseUuid);
        if (noted === undefined || isNewer(count, noted)) counts.set(licenseUuid, count);
      }
      for (const record of keysOf(licenseUuid)) updateUsedCount(record, count);
    },
    stats: () => ({ keys: known.size, licenses: byLicense.size, unknownKeys: unknown.size, hits, misses }),
  };
}

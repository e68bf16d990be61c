/**
 * Keys at hand, by their hash.
 *
 * Everything that can change an answer hangs on a license, so a license is what is forgotten, and what a
 * new count is noted for. The hard part is a look-up that began before a change and ends after it: while
 * it runs it keeps a list of what changed meanwhile, and what it found of those is not kept.
 *
 * A key that is asked for again and again is moved to the end of the cache's list, and its age looked at, once
 * in ten seconds: to do so each time is half a microsecond of waits for memory.
 */
import { LRUCache } from "lru-cache";
import type { Clock } from "../clock.ts";
import { hasSameRest, type KeyHash, renderKeyHash } from "./key_hash.ts";
import { isNewer, type KeyRecord, type UsageCount, updateUsedCount } from "./key_record.ts";

export interface KeyCacheOptions {
  readonly clock: Clock;
  /** Keys kept at most; 50,000 by default: some 70 MB as they are found, to which answers and windows come. */
  readonly maxKeys?: number;
}

/** A look-up under way; made by {@linkcode KeyCache.beginLookUp}. */
export interface LookUp {
  /** Keeps what the look-up found, by hash, and that the rest of `hashes` is unknown. */
  fill(hashes: readonly string[], found: ReadonlyMap<string, KeyRecord>): void;
  /** Must be called when it failed or filled. */
  end(): void;
}

export interface KeyCache {
  /** The key's record, null where it is known that there is none, undefined where it must be looked up. */
  get(hash: KeyHash, nowMs?: number): KeyRecord | null | undefined;
  beginLookUp(): LookUp;
  /** Forgets all keys of a license, and whatever a look-up under way will find of it. */
  forgetLicense(licenseUuid: string): void;
  forgetAll(): void;
  /** Takes in a license's newer count. */
  updateUsedCount(licenseUuid: string, count: UsageCount): void;
  stats(): {
    readonly keys: number;
    readonly licenses: number;
    readonly unknownKeys: number;
    readonly hits: number;
    readonly misses: number;
  };
}

/** How long a key may be answered from its place in the list without being moved. */
const UNMOVED_MS = 10_000;
/** A backstop only, ten minutes in all: changes arrive by the pulse long before. */
const MAX_AGE_MS = 600_000 - UNMOVED_MS;
/** Unknown keys are remembered so briefly that a key works within a second of being issued. */
const UNKNOWN_AGE_MS = 900;
const MAX_UNKNOWN = 10_000;

const EVEN_STALE = { allowStale: true };

/** The keys of a license: most have one, and need no set for it. */
type OneOrMore = KeyRecord | Set<KeyRecord>;

interface OpenLookUp {
  readonly beganMs: number;
  everything: boolean;
  readonly changed: Set<string>;
  readonly counts: Map<string, UsageCount>;
}

/** Stays one long function: its closures share the maps, the list and the counts of the serving path. */
export function createKeyCache({ clock, maxKeys = 50_000 }: KeyCacheOptions): KeyCache {
  const perf = { now: () => clock.monotonicMs() };
  let byLicense = new Map<string, OneOrMore>();
  const open = new Set<OpenLookUp>();
  let hits = 0;
  let misses = 0;

  /**
   * Two keys whose hashes begin with the same six bytes take each other's place here: that costs a look-up, and
   * never gives a wrong answer.
   */
  let known = makeKnown();
  const unknown = new LRUCache<string, true>({ max: MAX_UNKNOWN, ttl: UNKNOWN_AGE_MS, perf });

  function makeKnown() {
    return new LRUCache<number, KeyRecord>({
      max: maxKeys,
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
    if (keys === undefined) byLicense.set(record.licenseUuid, record);
    else if (keys instanceof Set) keys.add(record);
    else if (keys !== record) byLicense.set(record.licenseUuid, new Set([keys, record]));
  }

  /** A list of its own, which lasts while they are forgotten. */
  function keysOf(licenseUuid: string): readonly KeyRecord[] {
    const keys = byLicense.get(licenseUuid);
    if (keys === undefined) return [];
    return keys instanceof Set ? [...keys] : [keys];
  }

  /** Moves a key to the end of the list; false where it is too old. */
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
      const lookUp: OpenLookUp = { beganMs, everything: false, changed: new Set(), counts: new Map() };
      open.add(lookUp);
      return {
        fill(hashes, found) {
          for (const hash of hashes) {
            const record = found.get(hash);
            if (record === undefined) {
              if (!lookUp.everything) unknown.set(hash, true, { start: lookUp.beganMs });
              continue;
            }
            const count = lookUp.counts.get(record.licenseUuid);
            if (count !== undefined) updateUsedCount(record, count);
            if (!lookUp.everything && !lookUp.changed.has(record.licenseUuid)) keep(record);
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
      for (const lookUp of open) lookUp.everything = true;
      // Made anew in 1 ms; to take 50,000 keys out one by one stops all requests for 60 ms.
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

/** Finds keys by their hash: in the cache while the cache can be trusted, otherwise in the database. */

import type { Refusal } from "../../base/refusal.ts";
import {
  createLookUpQueue,
  type Database,
  DatabaseUnavailable,
  type LookUpOptions,
  type LookUpStats,
} from "../../database/mod.ts";
import type { LicenseCache } from "../mod.ts";
import { findKeysByHash } from "./find_keys.ts";
import { createKeyCache, type KeyCache } from "./key_cache.ts";
import { type KeyHash, renderKeyHash } from "./key_hash.ts";
import { createKeyHashByUuid } from "./key_hash_by_uuid.ts";
import type { KeyRecord, UsageCount } from "./key_record.ts";
import { createLastUse } from "./last_use.ts";
import { createPulse, type Pulse, type PulseOptions, TRUST_MS } from "./pulse.ts";
import { createRefusalCounts } from "./refusal_counts.ts";

interface KeyDirectoryOptions extends Pick<PulseOptions, "database" | "clock" | "log" | "processUuid"> {
  /** The database for the pulse: a separate connection, so that the pulse does not wait behind other statements. */
  readonly pulseDatabase?: Database;
  /** The most keys to keep in memory. */
  readonly maxKeys: number;
}

export interface KeyDirectory extends LicenseCache {
  /** Starts the pulse. Resolves after the first pulse. */
  start(): Promise<void>;
  /** Stops the pulse, and writes the last use of keys and the reasons for which keys were refused. */
  stop(): Promise<void>;
  /**
   * Returns true while the newest pulse is recent enough: then the cache may answer, and the database counts as
   * connected. `nowMs` is a time by the monotonic clock, now by default.
   */
  isTrusted(nowMs?: number): boolean;
  /** Returns false if the pulse neither succeeds nor fails any more. If the database does not answer, the pulse fails. */
  isAlive(): boolean;
  /** Returns the cached record, null if the key is known not to exist, undefined if the key must be looked up. */
  get(hash: KeyHash, nowMs?: number): KeyRecord | null | undefined;
  /** Returns the hash of the key with a UUID, null if there is no such key. Throws `DatabaseUnavailable`. */
  hashOf(keyUuid: string): Promise<KeyHash | null>;
  /** Looks a key up for a client at an address; null if there is no such key. Throws `DatabaseUnavailable`. */
  lookUp(hash: KeyHash, address: string, how?: LookUpOptions): Promise<KeyRecord | null>;
  /**
   * Forgets the cached keys of a license after a commit with an unknown outcome, which may still take effect. For
   * a minute the pulse reads the counts of this process too.
   */
  distrustLicense(licenseUuid: string): void;
  updateUsedCount(licenseUuid: string, count: UsageCount): void;
  /** Marks a key as used now. The mark is written later. */
  markUsed(record: KeyRecord): void;
  /** Notes the answer of an endpoint to a request with a key: a refusal, or none. The counts are written later. */
  noteAnswer(record: KeyRecord, refusal: Refusal | undefined, endpoint: string): void;
  /** Runs a pulse now. */
  beat(): Promise<void>;
  stats(): ReturnType<KeyCache["stats"]> & LookUpStats & ReturnType<Pulse["stats"]>;
}

/** Creates the directory with an empty cache. `start` begins its pulse. */
export function createKeyDirectory(options: KeyDirectoryOptions): KeyDirectory {
  const { database, clock } = options;
  const cache = createKeyCache(options);
  const hashes = createKeyHashByUuid(database);
  const pulse = createPulse({
    ...options,
    database: options.pulseDatabase ?? database,
    cache,
    onOtherServer() {
      hashes.forgetAll();
      // The previous server may still answer on open connections: its data must not be cached, and no event may go
      // to it.
      database.renew();
    },
  });
  const queue = createLookUpQueue({
    clock,
    async find(hashes) {
      const lookUp = cache.beginLookUp();
      const sentMs = clock.monotonicMs();
      try {
        const found = await findKeysByHash(database, hashes, clock.nowMs());
        lookUp.fill(hashes, found);
        // The record may be as old as the statement, which is too old for an answer. The cache may keep the record,
        // because the pulse reports later changes.
        if (clock.monotonicMs() - sentMs >= TRUST_MS) throw new DatabaseUnavailable("look-up took too long");
        return found;
      } finally {
        lookUp.end();
      }
    },
  });

  const lastUse = createLastUse(database, clock);
  const refusals = createRefusalCounts({ database, clock });

  return {
    async start() {
      await pulse.start();
      await lastUse.start();
      await refusals.start();
    },
    async stop() {
      await pulse.stop();
      await Promise.all([lastUse.stop(), refusals.stop()]);
    },
    isTrusted: pulse.isFresh,
    isAlive: pulse.isAlive,
    beat: pulse.beat,
    get: cache.get,
    hashOf: hashes.hashOf,
    lookUp: (hash, address, how) => queue.lookUp(renderKeyHash(hash), address, how),
    forgetLicense: cache.forgetLicense,
    forgetAll: cache.forgetAll,
    distrustLicense(licenseUuid) {
      cache.forgetLicense(licenseUuid);
      pulse.readOwnCounts();
    },
    updateUsedCount: cache.updateUsedCount,
    markUsed: lastUse.note,
    noteAnswer: refusals.note,
    stats: () => ({ ...cache.stats(), ...queue.stats(), ...pulse.stats() }),
  };
}

/** Finds keys by their hash: from the cache while it can be trusted, from the database otherwise. */
import type { Clock } from "../clock.ts";
import { type Database, DatabaseUnavailable } from "../database/mod.ts";
import type { Log } from "../log.ts";
import type { Refusal } from "../refusal.ts";
import { findKeysByHash } from "./find_keys.ts";
import { createKeyCache, type KeyCache } from "./key_cache.ts";
import { type KeyHash, renderKeyHash } from "./key_hash.ts";
import { createKeyHashByUuid } from "./key_hash_by_uuid.ts";
import type { KeyRecord, UsageCount } from "./key_record.ts";
import { createLastUse } from "./last_use.ts";
import { createLookUpQueue, type LookUpOptions, type LookUpStats } from "./look_up_queue.ts";
import { createPulse, type Pulse, TRUST_MS } from "./pulse.ts";
import { createRefusals } from "./refusals.ts";

export interface KeyDirectoryOptions {
  readonly database: Database;
  /** Where the pulse is felt: a connection of its own, so that it waits behind nobody. */
  readonly pulseDatabase?: Database;
  readonly clock: Clock;
  readonly log: Log;
  readonly processUuid: string;
  readonly maxKeys?: number;
}

export interface KeyDirectory {
  /** Starts the pulse; resolves when the database has answered it once. */
  start(): Promise<void>;
  /** Stops the pulse, and writes down which keys were used last and why keys were refused. */
  stop(): Promise<void>;
  /**
   * True while the pulse is felt: answers may be given, and the database counts as connected. Now, or at that
   * time by the monotonic clock.
   */
  isTrusted(nowMs?: number): boolean;
  /** The record at hand; null where it is known that there is none; undefined where nobody knows. */
  get(hash: KeyHash, nowMs?: number): KeyRecord | null | undefined;
  /** The hash of the key with that UUID, null where there is none; throws `DatabaseUnavailable`. */
  hashOf(keyUuid: string): Promise<KeyHash | null>;
  /** Looks a key up for a caller at that address; throws `DatabaseUnavailable`. */
  lookUp(hash: KeyHash, address: string, how?: LookUpOptions): Promise<KeyRecord | null>;
  /** Forgets what is cached of a license: to be called before a change to it is acknowledged. */
  forgetLicense(licenseUuid: string): void;
  /**
   * Forgets what is cached of a license of which nobody knows whether a commit took effect, or still will:
   * for a minute this process reads back its own counts too.
   */
  distrustLicense(licenseUuid: string): void;
  updateUsedCount(licenseUuid: string, count: UsageCount): void;
  /** Marks a key as used now; written behind. */
  markUsed(record: KeyRecord): void;
  /** Counts a refusal of a request with that key; written behind. */
  noteRefusal(record: KeyRecord, refusal: Refusal): void;
  /** Asks for changes now. */
  beat(): Promise<void>;
  stats(): ReturnType<KeyCache["stats"]> & LookUpStats & ReturnType<Pulse["stats"]>;
}

export function createKeyDirectory(options: KeyDirectoryOptions): KeyDirectory {
  const { database, clock } = options;
  const cache = createKeyCache({ clock, ...(options.maxKeys && { maxKeys: options.maxKeys }) });
  const hashes = createKeyHashByUuid(database);
  const pulse = createPulse({
    ...options,
    database: options.pulseDatabase ?? database,
    cache,
    onOtherServer() {
      hashes.forgetAll();
      // The previous server may still answer: nothing that it says may be cached, and no event may go there.
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
        // The record may be as old as the statement, too old to answer with. The cache may keep it, because the
        // pulse tells of later changes.
        if (clock.monotonicMs() - sentMs >= TRUST_MS) throw new DatabaseUnavailable("look-up took too long");
        return found;
      } finally {
        lookUp.end();
      }
    },
  });

  const lastUse = createLastUse({ database, clock });
  const refusals = createRefusals({ database, clock });

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
    beat: pulse.beat,
    get: cache.get,
    hashOf: hashes.hashOf,
    lookUp: (hash, address, how) => queue.lookUp(renderKeyHash(hash), address, how),
    forgetLicense: cache.forgetLicense,
    distrustLicense(licenseUuid) {
      cache.forgetLicense(licenseUuid);
      pulse.doubtOwnCounts();
    },
    updateUsedCount: cache.updateUsedCount,
    markUsed: lastUse.note,
    noteRefusal: refusals.note,
    stats: () => ({ ...cache.stats(), ...queue.stats(), ...pulse.stats() }),
  };
}

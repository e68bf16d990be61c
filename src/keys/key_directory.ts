/** Finds keys by their hash: from the cache while it can be trusted, from the database otherwise. */
import type { Clock } from "../clock.ts";
import type { Database } from "../database/mod.ts";
import type { Log } from "../log.ts";
import { findKeysByHash } from "./find_keys.ts";
import { createKeyCache } from "./key_cache.ts";
import type { KeyRecord, UsageCount } from "./key_record.ts";
import { createLookUpQueue } from "./look_up_queue.ts";
import { createPulse } from "./pulse.ts";

export interface KeyDirectoryOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly log: Log;
  readonly processUuid: string;
  readonly maxKeys?: number;
}

export interface KeyDirectory {
  /** Starts the pulse; resolves when the database has answered it once. */
  start(): Promise<void>;
  stop(): void;
  /** True while the pulse is felt: answers may be given, and the database counts as connected. */
  isTrusted(): boolean;
  /** The record at hand; null where it is known that there is none; undefined where nobody knows. */
  get(hash: string): KeyRecord | null | undefined;
  /** Looks a key up for a caller at that address; throws `DatabaseUnavailable`. */
  lookUp(hash: string, address: string): Promise<KeyRecord | null>;
  /** Forgets what is cached of a license: to be called before a change to it is acknowledged. */
  forgetLicense(licenseUuid: string): void;
  noteUsage(licenseUuid: string, count: UsageCount): void;
  /** Asks for changes now. */
  beat(): Promise<void>;
  stats(): Readonly<Record<string, number>>;
}

export function createKeyDirectory(options: KeyDirectoryOptions): KeyDirectory {
  const { database, clock } = options;
  const cache = createKeyCache({ clock, ...(options.maxKeys && { maxKeys: options.maxKeys }) });
  const pulse = createPulse({ ...options, cache });
  const queue = createLookUpQueue({
    clock,
    async find(hashes) {
      const lookUp = cache.beginLookUp();
      try {
        const found = await findKeysByHash(database, hashes, clock.now().getTime());
        lookUp.fill(hashes, found);
        return found;
      } finally {
        lookUp.end();
      }
    },
  });

  return {
    start: pulse.start,
    stop: pulse.stop,
    isTrusted: pulse.isFresh,
    beat: pulse.beat,
    get: cache.get,
    lookUp: queue.lookUp,
    forgetLicense: cache.forgetLicense,
    noteUsage: cache.noteUsage,
    stats: () => ({ ...cache.stats(), ...queue.stats(), ...pulse.stats() }),
  };
}

/**
 * Hashes of keys by their UUIDs, for what names a key without carrying it: a signed link.
 *
 * Only the name of a key is kept, never what it may: that is asked of the directory by the hash, so that a
 * revocation holds for links as it does for keys. A key's hash never changes.
 */
import { LRUCache } from "lru-cache";
import type { Database } from "../database/mod.ts";
import { type KeyHash, parseKeyHash } from "./key_hash.ts";

export interface KeyHashByUuid {
  /** Null where there is no such key. Throws `DatabaseUnavailable`. */
  hashOf(keyUuid: string): Promise<KeyHash | null>;
  forgetAll(): void;
}

const MAX_KEYS = 50_000;

export function createKeyHashByUuid(database: Database): KeyHashByUuid {
  const known = new LRUCache<string, Promise<KeyHash | null>>({ max: MAX_KEYS });

  async function find(keyUuid: string): Promise<KeyHash | null> {
    const [row] = await database.query<{ hash: string }>(
      (sql) => sql`select encode(hash, 'hex') as hash from keys where id = ${keyUuid}::uuid`,
      { isRead: true },
    );
    return row === undefined ? null : parseKeyHash(row.hash);
  }

  return {
    hashOf(keyUuid) {
      const hash = known.get(keyUuid);
      if (hash !== undefined) return hash;
      // Kept while it is looked up, so that the first hundred ranges of a link ask once.
      const asked = find(keyUuid);
      known.set(keyUuid, asked);
      asked.catch(() => known.delete(keyUuid));
      return asked;
    },
    forgetAll: () => known.clear(),
  };
}

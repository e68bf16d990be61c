/**
 * Finds the hashes of keys by their UUIDs: a signed link contains the UUID of its key, not the key.
 *
 * Only the hash is cached, never the rights of the key. The directory gives the rights by the hash, so that a
 * revocation applies to links as it does to keys. A key's hash never changes.
 */
import { LRUCache } from "lru-cache";
import type { Database } from "../../database/mod.ts";
import { type KeyHash, parseKeyHash } from "./key_hash.ts";

const MAX_KEYS = 50_000;

export function createKeyHashByUuid(database: Database) {
  const known = new LRUCache<string, Promise<KeyHash | null>>({ max: MAX_KEYS });

  async function find(keyUuid: string): Promise<KeyHash | null> {
    const [row] = await database.read<{ hash: string }>(
      (sql) => sql`select encode(hash, 'hex') as hash from keys where id = ${keyUuid}::uuid`,
    );
    return row === undefined ? null : parseKeyHash(row.hash);
  }

  return {
    /** Returns the hash of a key, null if there is no such key. Throws `DatabaseUnavailable`. */
    hashOf(keyUuid: string): Promise<KeyHash | null> {
      const hash = known.get(keyUuid);
      if (hash !== undefined) return hash;
      // The promise is cached, so that the first hundred ranges of a link share one statement.
      const asked = find(keyUuid);
      known.set(keyUuid, asked);
      asked.catch(() => known.delete(keyUuid));
      return asked;
    },
    forgetAll: () => known.clear(),
  };
}

import { type Session, toTextArray } from "../database/mod.ts";
import { toId } from "../ids.ts";
import { type Refusal, refuse } from "../refusal.ts";

interface Line {
  readonly key: { readonly hash: string };
  readonly line: number;
}

/** The number of hashes in one statement. */
const CHUNK_SIZE = 50_000;

/**
 * Refuses an import that the database refused because of a duplicate key. The refusal names the first line with
 * such a key and the number of such lines, never the key.
 */
export async function refuseDuplicate(session: Session, lines: readonly Line[]): Promise<Refusal> {
  const cannot = (why: string) => refuse("INVALID_REQUEST", `Cannot import keys: ${why}`);
  const known = await findKnown(session, lines);
  const firstLines = new Map<string, number>();
  let first: string | undefined;
  let duplicates = 0;
  for (const { key, line } of lines) {
    const uuid = known.get(key.hash);
    const twin = firstLines.get(key.hash);
    if (twin === undefined) firstLines.set(key.hash, line);
    if (uuid === undefined && twin === undefined) continue;
    duplicates++;
    first ??=
      uuid === undefined
        ? `line ${line} holds the same key as line ${twin}; take one of them out`
        : `line ${line} holds a key that is known already, as ${toId("key", uuid)}; take it out`;
  }
  // Another import had the key, and its transaction was rolled back since.
  if (first === undefined) return cannot("one of them was imported at the same moment; try again");
  return cannot(duplicates === 1 ? first : `${first} (the first of ${duplicates} such lines)`);
}

/** Returns the UUIDs of the keys that are already in the database, by hash. */
async function findKnown(session: Session, lines: readonly Line[]): Promise<Map<string, string>> {
  const known = new Map<string, string>();
  for (let from = 0; from < lines.length; from += CHUNK_SIZE) {
    const hashes = lines.slice(from, from + CHUNK_SIZE).map(({ key }) => `\\x${key.hash}`);
    const rows = await session.sql<{ hash: string; uuid: string }[]>`
      select encode(hash, 'hex') as hash, id as uuid from keys
       where hash = any(${toTextArray(hashes)}::bytea[])`;
    for (const { hash, uuid } of rows) known.set(hash, uuid);
  }
  return known;
}

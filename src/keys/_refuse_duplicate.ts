import { type Session, toTextArray } from "../database/mod.ts";
import { toId } from "../ids.ts";
import { type Refusal, refuse } from "../refusal.ts";

interface Line {
  readonly key: { readonly hash: string };
  readonly line: number;
}

/** Hashes a statement. */
const CHUNK_SIZE = 50_000;

/**
 * Refuses an import that the database refused for a key that is there already, naming the first line of
 * such a key, and how many more there are: never the key.
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
  // Somebody else's import, which was taken back since.
  if (first === undefined) return cannot("one of them was imported at the same moment; try again");
  return cannot(duplicates === 1 ? first : `${first} (the first of ${duplicates} such lines)`);
}

/** The UUIDs of those that are known, by hash. */
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

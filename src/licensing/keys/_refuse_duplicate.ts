/**
 * Refuses an import that the database refused because of a duplicate. The refusal names the first line with a
 * duplicate and the number of such lines, never a key.
 */

import { toId } from "../../base/ids.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import { type DatabaseSession, toTextArray } from "../../database/mod.ts";

interface Line {
  readonly key: { readonly hash: string; readonly external_id?: string | null | undefined };
  readonly line: number;
}

/** A value that must be unique, and the words for it. */
interface Unique {
  valueOf(key: Line["key"]): string | null | undefined;
  /** Returns the identifiers of the rows that have one of the values, by value. */
  find(values: readonly string[]): Promise<readonly { readonly value: string; readonly id: string }[]>;
  sameAs(line: number, twin: number): string;
  known(line: number, id: string): string;
}

/** The number of values in one statement. */
const CHUNK_SIZE = 50_000;

/** Refuses an import with a key that is known already or is on two lines. */
export function refuseDuplicateKey(session: DatabaseSession, lines: readonly Line[]): Promise<Refusal> {
  return refuseDuplicate(lines, {
    valueOf: ({ hash }) => hash,
    async find(hashes) {
      const rows = await session.sql<{ value: string; uuid: string }[]>`
        select encode(hash, 'hex') as value, id as uuid from keys
         where hash = any(${toTextArray(hashes.map((hash) => `\\x${hash}`))}::bytea[])`;
      return rows.map(({ value, uuid }) => ({ value, id: toId("key", uuid) }));
    },
    sameAs: (line, twin) => `line ${line} holds the same key as line ${twin}; take one of them out`,
    known: (line, id) => `line ${line} holds a key that is known already, as ${id}; take it out`,
  });
}

/** Refuses an import with an external id that another license has or that is on two lines. */
export function refuseDuplicateExternalId(
  session: DatabaseSession,
  lines: readonly Line[],
): Promise<Refusal> {
  return refuseDuplicate(lines, {
    valueOf: ({ external_id: externalId }) => externalId,
    async find(externalIds) {
      const rows = await session.sql<{ value: string; uuid: string }[]>`
        select external_id as value, id as uuid from licenses
         where external_id = any(${toTextArray(externalIds)}::text[])`;
      return rows.map(({ value, uuid }) => ({ value, id: toId("lic", uuid) }));
    },
    sameAs: (line, twin) => `line ${line} has the same external_id as line ${twin}; change one of them`,
    known: (line, id) => `line ${line} has the external_id of the license ${id}; change one of them`,
  });
}

async function refuseDuplicate(lines: readonly Line[], unique: Unique): Promise<Refusal> {
  const cannot = (why: string) => refuse("INVALID_REQUEST", `Cannot import keys: ${why}`);
  const known = await findKnown(lines, unique);
  const firstLines = new Map<string, number>();
  let first: string | undefined;
  let duplicates = 0;
  for (const { key, line } of lines) {
    const value = unique.valueOf(key);
    if (value == null) continue;
    const id = known.get(value);
    const twin = firstLines.get(value);
    if (twin === undefined) firstLines.set(value, line);
    if (id === undefined && twin === undefined) continue;
    duplicates++;
    first ??= id === undefined ? unique.sameAs(line, twin ?? 0) : unique.known(line, id);
  }
  // Another import had the value, and its transaction was rolled back since.
  if (first === undefined) return cannot("one of them was imported at the same moment; try again");
  return cannot(duplicates === 1 ? first : `${first} (the first of ${duplicates} such lines)`);
}

/** Returns the identifiers of the rows that are already in the database, by value. */
async function findKnown(lines: readonly Line[], unique: Unique): Promise<Map<string, string>> {
  const values = lines.flatMap(({ key }) => unique.valueOf(key) ?? []);
  const known = new Map<string, string>();
  for (let from = 0; from < values.length; from += CHUNK_SIZE) {
    const rows = await unique.find(values.slice(from, from + CHUNK_SIZE));
    for (const { value, id } of rows) known.set(value, id);
  }
  return known;
}

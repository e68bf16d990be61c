import { expect } from "bun:test";
import type { Database } from "../../src/database/mod.ts";

/** Expects that every acknowledged event is stored, and no event twice. Events name their claim in their metadata. */
export async function expectStoredOnce(database: Database, acknowledged: ReadonlySet<string>): Promise<void> {
  const rows = await database.query<{ claim: string }>(
    (sql) => sql`select metadata ->> 'claim' as claim from events`,
  );
  const stored = new Set(rows.map(({ claim }) => claim));
  expect(stored.size).toBe(rows.length);
  expect([...acknowledged].filter((claim) => !stored.has(claim))).toEqual([]);
}

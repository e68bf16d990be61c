/**
 * What a database does after a restore, beside the rows that it has: the restore switches triggers off, makes partitions,
 * and loads ids that sequences did not give. Whatever stays as it was meanwhile fails silently, weeks later.
 */
import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import type { Database } from "../../../src/database/mod.ts";
import { changeTier, createLicenseChanges } from "../../../src/licensing/mod.ts";

import { createTestDatabase } from "../../support/database.ts";
import { ACTOR } from "../../support/issue.ts";
import { useForAll } from "../../support/use.ts";
import { useFolder } from "../../support/use_folder.ts";
import { backUp, fill, prove, restore, tryRestore } from "./backup_kit.ts";

setDefaultTimeout(60_000);
const folder = useFolder();
const source = useForAll(createTestDatabase);
const restored = useForAll(() => createTestDatabase({ empty: true }));

beforeAll(async () => {
  await fill(source.database);
  await backUp(source.address, join(folder, "backup"));
  await restore(restored.address, join(folder, "backup"));
});

/** Describes everything in the catalogue that decides what the tables do; partitions apart, because each has a month. */
const CATALOGUE = {
  triggers: `select c.relname, case when t.tgisinternal then p.proname else t.tgname end as name, t.tgenabled, count(*)
               from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_proc p on p.oid = t.tgfoid
              where c.relnamespace = 'public'::regnamespace and not c.relispartition group by 1, 2, 3`,
  "event triggers": "select evtname, evtenabled from pg_event_trigger",
  constraints: `select c.relname, r.conname, pg_get_constraintdef(r.oid) as text, r.convalidated, r.condeferrable
                  from pg_constraint r join pg_class c on c.oid = r.conrelid
                 where c.relnamespace = 'public'::regnamespace and not c.relispartition`,
  indexes: `select pg_get_indexdef(indexrelid) as text, indisvalid, indisready, indislive
              from pg_index i join pg_class c on c.oid = i.indrelid
             where c.relnamespace = 'public'::regnamespace and not c.relispartition`,
  tables: `select relname, relkind, relpersistence, relrowsecurity, relreplident, reloptions
             from pg_class where relnamespace = 'public'::regnamespace and not relispartition`,
  columns: `select c.relname, a.attname, format_type(a.atttypid, a.atttypmod) as type, a.attnotnull, a.attidentity,
                   pg_get_expr(d.adbin, d.adrelid) as standard
              from pg_attribute a join pg_class c on c.oid = a.attrelid
              left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
             where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
               and a.attnum > 0 and not a.attisdropped`,
  functions: `select proname, md5(prosrc) as body from pg_proc where pronamespace = 'public'::regnamespace`,
} as const;

async function describeCatalogue(database: Database, statement: string): Promise<string[]> {
  const rows = await database.query((sql) => sql.unsafe(statement));
  return rows.map((row) => JSON.stringify(row)).toSorted();
}

describe("a restored database", () => {
  for (const [what, statement] of Object.entries(CATALOGUE)) {
    test(`has the ${what} of a new one`, async () => {
      await using fresh = await createTestDatabase();
      const expected = await describeCatalogue(fresh.database, statement);
      expect(await describeCatalogue(restored.database, statement)).toEqual(expected);
      if (what !== "event triggers") expect(expected.length).toBeGreaterThan(10);
    });
  }

  test("gives each partition the triggers and the valid indexes of its table", async () => {
    const partitions = await restored.database.query<{ name: string; missing: number }>(
      (sql) => sql`
        select c.relname as name,
               (select count(*) from pg_index i where i.indrelid = h.inhparent)
                 - (select count(*) from pg_index i where i.indrelid = c.oid and i.indisvalid)
                 + (select count(*) from pg_trigger t where t.tgrelid = c.oid and t.tgenabled <> 'O') as missing
          from pg_inherits h join pg_class c on c.oid = h.inhrelid
         where c.relkind = 'r' and c.relispartition`,
    );
    expect(partitions.map(({ name }) => name)).toContain("events_2026_09");
    expect(partitions.filter(({ missing }) => missing > 0)).toEqual([]);
  });

  test("continues every sequence after the highest id that was loaded", async () => {
    const columns = await restored.database.query<{ table: string; column: string; sequence: string }>(
      (sql) => sql`
        select c.relname as table, a.attname as column,
               pg_get_serial_sequence(quote_ident(c.relname), a.attname) as sequence
          from pg_attribute a join pg_class c on c.oid = a.attrelid
         where c.relnamespace = 'public'::regnamespace and a.attidentity <> '' and not c.relispartition`,
    );
    expect(columns.map(({ table }) => table)).toContain("audit");
    for (const { table, column, sequence } of columns) {
      const [row] = await restored.database.query<{ next: number; highest: number }>(
        (sql) => sql`
          select nextval(${sequence}::regclass) as next, coalesce(max(${sql(column)}), 0) as highest
            from ${sql(table)}`,
      );
      expect([table, (row?.next ?? 0) > (row?.highest ?? 0)]).toEqual([table, true]);
    }
  });

  test("has the values of each tier, and lists the features of the licenses", async () => {
    const [row] = await restored.database.query(
      (sql) => sql`
        select (select json_object_agg(tier, entitlements order by tier) from tiers) as tiers,
               (select count(*) from listed_features where feature = 'custom_models') as listed`,
    );
    expect(row).toEqual({
      tiers: { commercial: {}, enterprise: {}, free: {}, research: { channels: 8 } },
      listed: 1,
    });
  });

  test("is not made of a database in which a tier has values, so that a restore replaces none", async () => {
    await using used = await createTestDatabase();
    const change = { tier: "free", change: { a: 1 }, actor: ACTOR, now: new Date() } as const;
    await changeTier(createLicenseChanges(used.database), change);
    const refused = await tryRestore(used.address, await prove(join(folder, "backup")));
    expect(refused).toMatchObject({
      sentence: expect.stringContaining("is not empty (the tier free has values); give an empty one"),
    });
  });

  test("refuses what the tables guard against, and marks a change for the pulse", async () => {
    const { database } = restored;
    await expect(database.query((sql) => sql`delete from audit`)).rejects.toThrow("only grows");
    await expect(database.query((sql) => sql`update audit set actor = 'somebody'`)).rejects.toThrow(
      "only grows",
    );
    await expect(database.query((sql) => sql`delete from keys`)).rejects.toThrow("never deleted");
    const [changed] = await database.query<{ isMarked: boolean }>(
      (sql) => sql`
        update licenses set monthly_limit = 7 where id = (select id from licenses limit 1)
        returning changed_xid = pg_current_xact_id() as "isMarked"`,
    );
    expect(changed).toEqual({ isMarked: true });
  });

  test("has the statistics with which the server plans", async () => {
    const unknown = await restored.database.query<{ name: string }>(
      (sql) => sql`
        select relname as name from pg_class
         where relnamespace = 'public'::regnamespace and relkind = 'r' and not relispartition and reltuples < 0
           and relname in ('keys', 'licenses', 'accounts', 'audit', 'usage', 'machines')`,
    );
    expect(unknown).toEqual([]);
  });
});

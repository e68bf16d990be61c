import { describe, expect, test } from "bun:test";
import { inTransaction } from "../support/in_transaction.ts";
import { licenseWith } from "../support/machines.ts";
import { useTestDatabase } from "../support/use.ts";

const server = useTestDatabase();

/** Lists the columns on which an index of the table depends: its keys, its expressions, and its condition. */
async function indexedColumns(table: string): Promise<string[]> {
  const rows = await server.database.query<{ name: string }>(
    (sql) => sql`
      select distinct a.attname as name
        from pg_index i
        join pg_attribute a on a.attrelid = i.indrelid
         and (a.attnum = any(i.indkey) or a.attnum in (
               select refobjsubid from pg_depend
                where classid = 'pg_class'::regclass and objid = i.indexrelid and refobjid = i.indrelid))
       where i.indrelid = ${table}::text::regclass
         and a.attnum > 0
       order by 1`,
  );
  return rows.map(({ name }) => name);
}

describe("an index", () => {
  // Otherwise each event, and each use of a key, would also write to the indexes: their updates would not be HOT.
  test("has no column that an event or a use of a key changes", async () => {
    expect(await indexedColumns("usage")).toEqual(["license_id", "month"]);
    expect(await indexedColumns("keys")).toEqual([
      "changed_xid",
      "hash",
      "hint",
      "id",
      "license_id",
      "own_expires_at",
    ]);
  });

  // The places of floating machines depend on their heartbeats: many each second.
  test("has no column that the heartbeat of a machine changes", async () => {
    const columns = await indexedColumns("machines");
    expect(columns).toContain("stored_state");
    for (const changed of ["active_until", "last_seen_at"]) expect(columns).not.toContain(changed);
    const { licenseUuid } = await licenseWith(server.database, { maxMachines: 1, seatMinutes: 5 });
    await inTransaction(server.address, async (sql) => {
      await sql`
        insert into machines (id, license_id, fingerprint, activated_at, last_seen_at, active_until)
        values (gen_random_uuid(), ${licenseUuid}::uuid, ${Buffer.alloc(32)}, now(), now(), now() + interval '5 minutes')`;
      await sql`
        select from renew_seats(array[${licenseUuid}::uuid], array[${Buffer.alloc(32)}::bytea], true)`;
      const [updates] = await sql<{ hot: number; all: number }[]>`
        select n_tup_hot_upd::integer as hot, n_tup_upd::integer as all
          from pg_stat_xact_user_tables where relname = 'machines'`;
      expect(updates).toEqual({ hot: 1, all: 1 });
    });
  });

  test("is valid in every case, also if it was built concurrently", async () => {
    const invalid = await server.database.query(
      (sql) => sql`select indexrelid::regclass::text as name from pg_index where not indisvalid`,
    );
    expect(invalid).toEqual([]);
  });
});

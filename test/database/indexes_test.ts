import { describe, expect, test } from "bun:test";
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
    expect(await indexedColumns("keys")).toEqual(["changed_xid", "hash", "hint", "id", "license_id"]);
  });

  test("is valid in every case, also if it was built concurrently", async () => {
    const invalid = await server.database.query(
      (sql) => sql`select indexrelid::regclass::text as name from pg_index where not indisvalid`,
    );
    expect(invalid).toEqual([]);
  });
});

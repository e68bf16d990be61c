import { expect, test } from "bun:test";
import { monthOf } from "../../src/base/calendar.ts";
import { listUsage } from "../../src/usage/mod.ts";
import { countRowsRead } from "../support/rows_read.ts";
import { useTestDatabase } from "../support/use.ts";

const LICENSES = 20_000;
const PAGE = 200;
/** The rows before the page. */
const BEFORE = 15_000;

const server = useTestDatabase();

test("listUsage() reads few rows for a page late in a long month", async () => {
  const { database } = server;
  // Identifiers begin with a time, so they grow from row to row.
  await database.query(
    (sql) => sql`
      with account as (
        insert into accounts (id, email, name, created_at)
        select lpad(n::text, 32, '0')::uuid, n || '@example.org', 'A', now()
          from generate_series(1, ${LICENSES / 5}::bigint) n
      ),
      license as (
        insert into licenses (id, account_id, tier, expires_at, created_at)
        select lpad(n::text, 32, '0')::uuid, lpad((1 + n / 5)::text, 32, '0')::uuid, 'free', 'infinity', now()
          from generate_series(1, ${LICENSES}::bigint - 5) n
        returning id
      )
      insert into usage (license_id, month, used) select id, '2026-10-01', 7 from license`,
    { deadlineMs: 30_000 },
  );
  await database.query((sql) => sql`vacuum analyze`);
  const month = monthOf(Date.parse("2026-10-01"));
  const rows = await listUsage(database, month);
  const page = { afterUuid: rows[BEFORE - 1]?.licenseUuid, limit: PAGE };
  expect(await listUsage(database, month, page)).toEqual(rows.slice(BEFORE, BEFORE + PAGE));
  const read = await countRowsRead(database, (explained) => listUsage(explained, month, page));
  expect(read).toBeLessThan(5 * PAGE);
});

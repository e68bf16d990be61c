import { beforeAll, describe, expect, test } from "bun:test";
import { monthOf } from "../../src/base/calendar.ts";
import { searchAccounts } from "../../src/licensing/mod.ts";
import { countUsage, isUseOrdered, listUsage } from "../../src/usage/mod.ts";
import { issue } from "../support/issue.ts";
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
  const search = await searchAccounts(database, "3999@example.org");
  const part = { byUse: true, search };
  expect(await listUsage(database, month, part)).toHaveLength(5);
  const found = await countRowsRead(database, (explained) => listUsage(explained, month, part));
  expect(found).toBeLessThan(50);
});

describe("listUsage() by use", () => {
  const small = useTestDatabase();
  const month = monthOf(Date.parse("2026-10-01"));
  const uses = [5, 40, 5, 0, 30];
  const uuids: string[] = [];
  beforeAll(async () => {
    for (const [index, used] of uses.entries()) {
      const { licenseUuid } = await issue(small.database, {
        email: `customer-${index}@example.org`,
        organization: index === 1 ? "Clinic of Camhaven" : "",
        externalId: `order-${index}`,
      });
      uuids.push(licenseUuid);
      const over = used === 0 ? 9 : 0;
      await small.database.query(
        (sql) => sql`
          insert into usage (license_id, month, used, over)
          values (${licenseUuid}::uuid, '2026-10-01', ${used}::bigint, ${over}::bigint),
                 (${licenseUuid}::uuid, '2026-09-01', ${100 - used}::bigint, 0)`,
      );
    }
  });

  const list = async (part: Parameters<typeof listUsage>[2] = {}) =>
    (await listUsage(small.database, month, { byUse: true, ...part })).map(({ licenseUuid }) =>
      uuids.indexOf(licenseUuid),
    );

  test("lists the licenses that used most first, and reads on from each of them in both directions", async () => {
    const all = [1, 4, 2, 0, 3];
    expect(await list()).toEqual(all);
    for (const [place, index] of all.entries()) {
      const part = { afterUuid: uuids[index] };
      expect(await list({ ...part, limit: 2 })).toEqual(all.slice(place + 1, place + 3));
      expect(await list({ ...part, newestFirst: true })).toEqual(all.slice(0, place).toReversed());
      expect(await countUsage(small.database, month, { ...part, byUse: true, newestFirst: true })).toBe(
        place,
      );
    }
  });

  test("finds the licenses of a customer by words, and by the external id", async () => {
    const find = async (text: string) => list({ search: await searchAccounts(small.database, text) });
    expect(await find("camhaven clinic")).toEqual([1]);
    expect(await find("order-4")).toEqual([4]);
    expect(await find("example.org")).toEqual([1, 4, 2, 0, 3]);
    expect(await find("nobody")).toEqual([]);
  });

  test("tells a table that is small enough for the order from a larger one", async () => {
    expect(await isUseOrdered(small.database)).toBe(true);
    expect(await isUseOrdered(small.database, 1)).toBe(false);
  });
});

import { describe, expect, test } from "bun:test";
import { monthOf } from "../../src/base/calendar.ts";
import { parseId } from "../../src/base/ids.ts";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import { findUsageByMonth } from "../../src/usage/mod.ts";
import { issue } from "../support/issue.ts";
import { countRowsRead } from "../support/rows_read.ts";
import { useTestDatabase } from "../support/use.ts";

const server = useTestDatabase();

async function use({ licenseUuid }: IssuedKey, month: string, used: number): Promise<void> {
  await server.database.query(
    (sql) => sql`
      insert into usage (license_id, month, used) values (${licenseUuid}::uuid, ${`${month}-01`}::date, ${used}::bigint)`,
  );
}

const usageOf = ({ userId }: IssuedKey, last: string) =>
  findUsageByMonth(server.database, parseId("usr", userId) ?? "", monthOf(Date.parse(last)));

describe("findUsageByMonth()", () => {
  test("returns the sum of all licenses of the account for each of the last months, oldest first", async () => {
    const email = "grace@example.org";
    const [one, two] = [await issue(server.database, { email }), await issue(server.database, { email })];
    const other = await issue(server.database);
    await use(one, "2025-11", 1_000_000);
    await use(one, "2025-12", 5);
    await use(one, "2026-11", 30);
    await use(two, "2026-11", 12);
    await use(two, "2026-12", 7);
    await use(other, "2026-11", 999);
    const months = await usageOf(one, "2026-11-20");
    expect(months).toHaveLength(12);
    expect(months[0]).toEqual({ month: "2025-12", used: 5, over: 0 });
    expect(months.slice(1, 11).every(({ used }) => used === 0)).toBe(true);
    expect(months.at(-1)).toEqual({ month: "2026-11", used: 42, over: 0 });
    expect((await usageOf(one, "2026-12-01")).slice(-2)).toEqual([
      { month: "2026-11", used: 42, over: 0 },
      { month: "2026-12", used: 7, over: 0 },
    ]);
  });

  test("returns the greatest number that is exact, if the sum is greater", async () => {
    const email = "huge@example.org";
    const [one, two] = [await issue(server.database, { email }), await issue(server.database, { email })];
    await use(one, "2026-11", Number.MAX_SAFE_INTEGER);
    await use(two, "2026-11", Number.MAX_SAFE_INTEGER);
    expect((await usageOf(one, "2026-11-20")).at(-1)?.used).toBe(Number.MAX_SAFE_INTEGER);
  });

  test("reads no older months, however many there are", async () => {
    const keys = [await issue(server.database), await issue(server.database, { email: "old@example.org" })];
    for (const { licenseUuid } of keys)
      await server.database.query(
        (sql) => sql`
          insert into usage (license_id, month, used)
          select ${licenseUuid}::uuid, month, 1
            from generate_series('1960-01-01'::date, '2026-10-01'::date, interval '1 month') as month`,
      );
    await server.database.query((sql) => sql`vacuum analyze`);
    const uuid = parseId("usr", keys[1]?.userId ?? "") ?? "";
    const read = await countRowsRead(server.database, (database) =>
      findUsageByMonth(database, uuid, monthOf(Date.parse("2026-11-20"))),
    );
    expect(read).toBeLessThan(30);
  });
});

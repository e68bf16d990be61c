/** Use by day, the stored figures, and the lists of keys that use them. */
import { beforeAll, describe, expect, test } from "bun:test";
import { DAY_MS } from "../../src/base/calendar.ts";
import type { Database, Sql } from "../../src/database/mod.ts";
import { type KeySummary, listKeys } from "../../src/licensing/keys/mod.ts";
import { TIERS } from "../../src/licensing/mod.ts";
import { computeFigures } from "../../src/usage/figures/mod.ts";
import { countUse } from "../../src/usage/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { useAdmin, useForAll } from "../support/use.ts";
import { makeRandomCustomers } from "../usage/figures/random_customers.ts";
import { commandsOn } from "./commands_on.ts";
import { readAll } from "./list_kit.ts";

let demands = 0;

function useCustomers() {
  const clock = createTestClock("2026-11-20T12:00:00Z");
  const admin = useAdmin({ clock, admin: { demandFigures: () => void demands++ } });
  beforeAll(() => makeRandomCustomers(admin.database, { licenses: 400, now: clock.now() }));
  return admin;
}

describe("before the first computation", () => {
  const admin = useCustomers();

  test("GET /figures says so, and demands one", async () => {
    const before = demands;
    expect((await admin.call("GET", "/figures")).body).toEqual({
      as_of: null,
      keys: null,
      consumers: null,
      near_quota: null,
      runs_out: null,
      expiring: null,
      unused: null,
      machines: null,
    });
    expect(demands).toBe(before + 1);
  });

  test("GET /keys with a condition by the stored figures says so, and demands one", async () => {
    for (const [filter, names] of [
      ["near_quota=90", "near_quota"],
      ["unused_for=90&tier=free", "unused_for"],
      ["runs_out_within=31", "runs_out_within"],
      ["all_places_taken=true&near_quota=80", "near_quota or all_places_taken"],
    ]) {
      const before = demands;
      const { status, body, headers } = await admin.call("GET", `/keys?${filter}`);
      expect({ status, error: body.error }).toEqual({
        status: 503,
        error: `Cannot list keys by ${names}: the figures are not computed yet; ask again in a minute`,
      });
      expect(headers.get("retry-after")).not.toBeNull();
      expect(demands).toBe(before + 1);
    }
  });

  test("GET /usage/daily says that nothing is counted", async () => {
    expect((await admin.call("GET", "/usage/daily")).body).toMatchObject({
      from: "2026-10-22",
      to: "2026-11-20",
      by: null,
      as_of: null,
      data: [],
      imported: [],
    });
  });
});

/** The stored lists, each as SQL. */
const NEAR = (sql: Sql) => sql`select key_id from figure_near_quota`;
const unused = (days: number) => (sql: Sql) =>
  sql`select key_id from figure_unused where days >= ${days}::smallint`;

describe("after the first computation", () => {
  const admin = useCustomers();
  const commands = useForAll(() => commandsOn(admin.testDatabase, admin.clock));
  beforeAll(async () => {
    const { database, clock } = admin;
    await computeFigures(database, { clock });
    await countUse(database, { clock, isStopping: () => false });
  });

  test("GET /keys with conditions of the stored figures lists exactly the keys that meet all conditions", async () => {
    const now = admin.clock.now();
    const figures = [
      ...[80, 90, 100].map((near_quota) => ({ near_quota })),
      ...[30, 90, 180, 365].map((unused_for) => ({ unused_for })),
      { near_quota: 80, unused_for: 30 },
    ] as { near_quota?: number; unused_for?: number }[];
    const others = [
      ...[{}, { state: "expired" }, { mode: "test" }, { tier: "enterprise", state: "active" }],
      ...[{ account: "customer7@example.org" }, { search: "customer7", state: "active" }],
      { expiring_within: "200" },
    ] as Record<string, string>[];
    const all = await listKeys(admin.database, { now });
    const isNear = ({ used, monthlyLimit }: KeySummary, percent = 0) =>
      percent === 0 || (monthlyLimit !== null && used * 100 >= monthlyLimit * percent);
    const isUnused = ({ lastUsedAt, createdAt }: KeySummary, days = 0) =>
      Math.max(lastUsedAt?.getTime() ?? 0, createdAt.getTime()) <= now.getTime() - days * DAY_MS;
    let found = 0;
    for (const filter of figures)
      for (const other of others) {
        const query = new URLSearchParams({ ...(filter as Record<string, string>), ...other, limit: "30" });
        const listed = (await readAll(admin, `/keys?${query}`)).map(({ id }) => id);
        const { near_quota, unused_for } = filter;
        const expected = all.filter(
          (key) =>
            isNear(key, near_quota) &&
            isUnused(key, unused_for) &&
            (other.state ?? key.state) === key.state &&
            (other.mode ?? key.mode) === key.mode &&
            (other.tier ?? key.tier) === key.tier &&
            (other.account ?? key.email) === key.email &&
            key.email.startsWith(other.search ?? "") &&
            (!other.expiring_within || (isWithin(key.expiresAt, now) && isWithin(key.licenseExpiresAt, now))),
        );
        expect({ filter, other, listed }).toEqual({ filter, other, listed: expected.map(({ id }) => id) });
        found += listed.length;
      }
    expect(found).toBeGreaterThan(1_000);
  });

  test("listKeys() finds the same page in a short list, in a long one, and without a limit", async () => {
    const now = admin.clock.now();
    let found = 0;
    for (const figure of [...[30, 90, 180, 365].map((days) => [unused(days)]), [NEAR], [unused(30), NEAR]])
      for (const other of [
        {},
        { tier: "free" },
        { tier: "enterprise", state: "expired" },
        { state: "expired", mode: "live" },
        { expiringWithinDays: 9 },
      ] as const) {
        const find = (keys: number, limit?: number) =>
          listKeys(admin.database, {
            now,
            filter: {
              ...other,
              stored: figure.map((select, index) => ({ select, keys: keys + index })),
              limit,
              newestFirst: true,
            },
          });
        const all = await find(1);
        // A page of one key looks up only a few keys of the list before it reads all of them.
        for (const limit of [1, 20])
          for (const keys of [1, 1_000, 1_000_000])
            expect(await find(keys, limit)).toEqual(all.slice(0, limit));
        found += all.length;
      }
    expect(found).toBeGreaterThan(300);
  });

  test("listKeys() merges no groups for a stored list that it looks up as a whole", async () => {
    const isMerged = async (keys: number) => {
      let plan = "";
      const query: Database["query"] = async (build) => {
        plan += JSON.stringify(await admin.database.query((sql) => sql`explain ${build(sql)}`));
        return [];
      };
      const stored = [{ select: NEAR, keys }];
      const filter = { tier: "free", mode: "test", state: "suspended", stored, limit: 20 } as const;
      await listKeys({ ...admin.database, query }, { now: admin.clock.now(), filter });
      // The groups are those of months, which only a recursive query finds.
      return plan.includes("Recursive Union");
    };
    expect(await isMerged(50 * 20)).toBe(false);
    expect(await isMerged(50 * 20 + 1)).toBe(true);
  });

  const isWithin = (at: Date, now: Date) => at > now && at.getTime() <= now.getTime() + 200 * 86_400_000;

  test("GET /keys tells when the figures were counted, and demands new ones", async () => {
    const { body: figures } = await admin.call("GET", "/figures");
    const before = demands;
    for (const [filter, ...names] of [
      ["near_quota=80", "near_quota"],
      ["unused_for=30", "unused"],
      ["near_quota=100&unused_for=365", "near_quota", "unused"],
      ["runs_out_within=7&all_places_taken=true", "runs_out", "machines"],
    ] as const) {
      // On a busy machine the figures of one computation are not counted within one second.
      const [oldest] = names.map((name) => figures[name].as_of).toSorted();
      expect((await admin.call("GET", `/keys?${filter}`)).body.as_of).toBe(oldest);
    }
    expect((await admin.call("GET", "/keys")).body).not.toHaveProperty("as_of");
    expect(demands).toBe(before + 4);
  });

  test("`keys list` has the same keys, and says when the figures were counted", async () => {
    let found = 0;
    for (const [query, ...options] of [
      ["refused_now=true", "--refused-now"],
      ["refused_now=true&tier=free", "--refused-now", "--tier", "free"],
      ["runs_out_within=5", "--runs-out-within", "5"],
      ["all_places_taken=true", "--all-places-taken"],
    ] as const) {
      const listed = await readAll(admin, `/keys?${query}&limit=50`);
      const command = ["keys", "list", "--limit", "5000", ...options];
      expect(await commands.json(command)).toEqual(listed);
      expect((await commands.run(command)).err).toMatch(
        /^By the stored figures of 2026-11-20T12:\d\d:\d\dZ\n$/,
      );
      found += listed.length;
    }
    expect(found).toBeGreaterThan(300);
  });

  test("GET /figures has the counts of the database", async () => {
    const { body } = await admin.call("GET", "/figures");
    const [row] = await admin.database.query<Record<string, number>>(
      (sql) => sql`
        select (select count(*) from keys) as keys, (select max(used) from (
                  select sum(used) as used from usage join licenses on id = license_id where month = '2026-11-01'
                   group by account_id) as accounts)::bigint as most`,
    );
    const sum = (rows: { keys: number }[]) => rows.reduce((all, { keys }) => all + keys, 0);
    expect({ keys: sum(body.keys.data), most: body.consumers.data[0].used }).toEqual(row as never);
    expect(body.near_quota.licenses).toBeGreaterThan(20);
  });

  test("GET /usage/daily has the use of each day, also by tier or mode", async () => {
    const { body } = await admin.call("GET", "/usage/daily?from=2026-10-30&to=2026-11-05");
    const days = await admin.database.query<{ day: string; used: number }>(
      (sql) => sql`
        select to_char(month + (place - 1)::integer, 'YYYY-MM-DD') as day, sum(units)::bigint as used
          from usage, unnest(by_day) with ordinality as u (units, place)
         where month + (place - 1)::integer between '2026-10-30' and '2026-11-05'
         group by 1 order by 1`,
    );
    expect(body.data).toEqual([...days]);
    expect(body).toMatchObject({
      from: "2026-10-30",
      to: "2026-11-05",
      by: null,
      exact_until: "2026-11-20",
      filled_from: null,
      imported: [{ month: "2026-10" }, { month: "2026-11" }],
    });
    for (const by of ["tier", "mode"]) {
      const { body: divided } = await admin.call(
        "GET",
        `/usage/daily?from=2026-10-30&to=2026-11-05&by=${by}`,
      );
      const sums = days.map(({ day }) => ({
        day,
        used: divided.data
          .filter((row: { day: string }) => row.day === day)
          .reduce((sum: number, { used }: { used: number }) => sum + used, 0),
      }));
      expect(sums).toEqual([...days]);
      const names = new Set(divided.data.map((row: Record<string, string>) => row[by]));
      expect(names).toEqual(new Set(by === "tier" ? TIERS : ["live", "test", "live+test"]));
    }
    // No row for tomorrow.
    const { body: ahead } = await admin.call("GET", "/usage/daily?from=2026-11-19&to=2026-11-30");
    expect(ahead.data.map(({ day }: { day: string }) => day)).toEqual(["2026-11-19", "2026-11-20"]);
  });

  test("GET /usage/daily accepts 400 days, and days before the first and after the last", async () => {
    for (const query of [
      "from=2025-10-17&to=2026-11-20",
      "to=1000-01-01",
      "from=2026-11-21",
      "from=9999-01-01&to=9999-12-31",
    ])
      expect({ query, status: (await admin.call("GET", `/usage/daily?${query}`)).status }).toEqual({
        query,
        status: 200,
      });
  });
});

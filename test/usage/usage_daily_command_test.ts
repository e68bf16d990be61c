/** `usage daily`: the numbers of the API, and small bars on a terminal. */
import { beforeAll, describe, expect, test } from "bun:test";
import { countUse, restartCount } from "../../src/usage/mod.ts";
import { commandsOn } from "../admin/commands_on.ts";
import { createTestClock } from "../support/clock.ts";
import { useAdmin, useForAll } from "../support/use.ts";

const admin = useAdmin({ clock: createTestClock("2026-11-20T12:00:00Z") });
const commands = useForAll(() => commandsOn(admin.testDatabase, admin.clock));

beforeAll(async () => {
  const { licenseUuid } = await admin.issue({ tier: "research" });
  const days = Array.from({ length: 31 }, (_, index) => (index === 17 ? 4_000 : index === 18 ? 1_000 : 0));
  await admin.database.query(
    (sql) => sql`
      insert into usage (license_id, month, used, by_day)
      values (${licenseUuid}::uuid, '2026-11-01', 5012, ${`{${days}}`}::bigint[])`,
  );
});

const count = () => countUse(admin.database, { clock: admin.clock, isStopping: () => false });
const daily = (...args: string[]) => [
  "usage",
  "daily",
  "--from",
  "2026-11-18",
  "--to",
  "2026-11-25",
  ...args,
];

describe("claviger usage daily", () => {
  test("says that nothing is counted yet", async () => {
    await restartCount(admin.database);
    const { status, out, err } = await commands.run(daily());
    expect({ status, out, err }).toEqual({
      ...{ status: 0, out: "none\n" },
      err: "Nothing is counted yet: the service begins some seconds after its start\n",
    });
  });

  test("prints what GET /usage/daily answers", async () => {
    await count();
    for (const by of ["", "tier", "mode"]) {
      const { body } = await admin.call(
        "GET",
        `/usage/daily?from=2026-11-18&to=2026-11-25${by && `&by=${by}`}`,
      );
      expect(await commands.json(daily(...(by ? ["--by", by] : [])))).toEqual(body);
      expect(body.data.length).toBe(by ? 2 : 3);
    }
  });

  test("draws bars on a terminal, and tells how exact the days are", async () => {
    await count();
    const { out, err } = await commands.run(daily("--by", "tier"), { columns: 60 });
    expect(out.split("\n").map((text) => text.trimEnd())).toEqual([
      "DAY         TIER      USED  CHART",
      `2026-11-18  research  4000  ${"█".repeat(32)}`,
      `2026-11-19  research  1000  ${"█".repeat(8)}`,
      "",
    ]);
    expect(err).toMatch(
      /^Imported in 2026-11, without a day, research: 12\nCounted until 2026-11-20T11:59:\d\dZ; the days before 2026-11-20 are exact\n$/,
    );
  });

  test("refuses more than 400 days, and what is no day", async () => {
    const long = await commands.run(["usage", "daily", "--from", "2025-01-01"]);
    expect(long.status).toBe(1);
    expect(long.err).toContain("Cannot show use by day: --from and --to must be at most 400 days apart");
    const wrong = await commands.run(["usage", "daily", "--from", "2025-1-1"]);
    expect(wrong.status).toBe(2);
    expect(wrong.err).toContain("It must be a day such as 2026-11-20");
  });
});

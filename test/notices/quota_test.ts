/** Notices of licenses that have used a share of the quota of the month. */
import { describe, expect, test } from "bun:test";
import { toTextArray } from "../../src/database/mod.ts";
import { describeNotice } from "../../src/notices/mod.ts";
import { createTestDatabase } from "../support/database.ts";
import { issue } from "../support/issue.ts";
import { useForEach } from "../support/use.ts";
import { audited, makeAt, notices, shown } from "./notices_kit.ts";

const server = useForEach(createTestDatabase);
const NOW = "2026-11-20T12:00:00Z";

/** Stores the use of a license: the units of some days of a month, and units that have no day. */
async function use(
  license: string,
  days: Readonly<Record<number, number>>,
  { month = "2026-11", without = 0 } = {},
): Promise<void> {
  const byDay = Array.from({ length: 31 }, (_, index) => days[index + 1] ?? 0);
  const used = byDay.reduce((sum, units) => sum + units, without);
  await server.database.query(
    (sql) => sql`
      insert into usage (license_id, month, used, by_day)
      values (${license}::uuid, ${`${month}-01`}::date, ${used}::bigint, ${toTextArray(byDay)}::bigint[])
      on conflict (license_id, month) do update set used = excluded.used, by_day = excluded.by_day`,
  );
}

const issueWith = (monthlyLimit: number, email = "ada@example.org") =>
  issue(server.database, { monthlyLimit, email });

const setLimit = (license: string, limit: number) =>
  server.database.query(
    (sql) => sql`update licenses set monthly_limit = ${limit}::bigint where id = ${license}::uuid`,
  );

describe("a quota", () => {
  test("has a notice for the highest share, and it says on which day it was reached", async () => {
    const { licenseUuid } = await issueWith(1_000);
    await use(licenseUuid, { 3: 400, 9: 399 });
    await makeAt(server.database, NOW);
    expect(await shown(server.database, NOW)).toEqual([]);
    await use(licenseUuid, { 3: 400, 9: 399, 12: 1 });
    await makeAt(server.database, NOW);
    const [notice] = await notices(server.database, NOW);
    expect(notice).toMatchObject({ stage: 80, trueSince: new Date("2026-11-12T00:00:00Z") });
    expect(notice && describeNotice(notice)).toMatch(
      /has used 80 % of its quota \(800 of 1,000\), which resets at 2026-12-01 00:00 UTC/,
    );
    expect(notice && describeNotice({ ...notice, facts: { ...notice.facts, used: 999 } })).toMatch(
      /has used 99 % of its quota \(999 of 1,000\)/,
    );
    await use(licenseUuid, { 3: 400, 9: 399, 12: 201 });
    await makeAt(server.database, NOW);
    expect(await shown(server.database, NOW)).toEqual(["quota_used 80 replaced", "quota_used 100 open"]);
    const [full] = await notices(server.database, NOW);
    expect(full && describeNotice(full)).toMatch(
      /has used its quota up: 1,000 of 1,000, and further use is refused/,
    );
  });

  test("counts imported use, which has no day, from the first day on", async () => {
    const { licenseUuid } = await issueWith(1_000);
    await use(licenseUuid, { 5: 100 }, { without: 800 });
    await makeAt(server.database, NOW);
    expect(await notices(server.database, NOW)).toMatchObject([
      { stage: 80, trueSince: new Date("2026-11-01T00:00:00Z") },
    ]);
  });

  test("has its notice withdrawn by a higher limit, and another one for that limit", async () => {
    const { licenseUuid } = await issueWith(1_000);
    await use(licenseUuid, { 3: 900 });
    await makeAt(server.database, NOW);
    await setLimit(licenseUuid, 10_000);
    await makeAt(server.database, NOW);
    expect(await notices(server.database, NOW, {})).toMatchObject([
      { state: "withdrawn", withdrawnFor: "other_limit" },
    ]);
    await use(licenseUuid, { 3: 9_000 });
    await makeAt(server.database, NOW);
    expect(await shown(server.database, NOW, { state: "open" })).toEqual(["quota_used 80 open"]);
    expect(await audited(server.database)).toEqual([
      "notice.make quota_used 80",
      "notice.withdraw quota_used 80 other_limit",
      "notice.make quota_used 80",
    ]);
  });

  test("has its notice until the last second of the month, also with a clock that steps back over it", async () => {
    const { licenseUuid } = await issueWith(1_000);
    await use(licenseUuid, { 3: 900 }, { month: "2026-11" });
    await use(licenseUuid, { 1: 1_000 }, { month: "2026-12" });
    await makeAt(server.database, "2026-11-30T23:59:59.999Z");
    expect(await shown(server.database, NOW)).toEqual(["quota_used 80 open"]);
    await makeAt(server.database, "2026-12-01T00:00:00Z");
    expect(await shown(server.database, NOW)).toEqual(["quota_used 80 withdrawn", "quota_used 100 open"]);
    const [open] = await notices(server.database, NOW);
    expect(open).toMatchObject({ facts: { month: "2026-12" }, trueSince: new Date("2026-12-01T00:00:00Z") });
    await makeAt(server.database, "2026-11-30T23:59:59Z");
    // Of the month that is over it is true again for a second, and that of the next month stays.
    expect(await shown(server.database, NOW, { state: "open" })).toEqual([
      "quota_used 80 open",
      "quota_used 100 open",
    ]);
    await makeAt(server.database, "2026-12-01T00:00:01Z");
    expect(await shown(server.database, NOW, { state: "open" })).toEqual(["quota_used 100 open"]);
  });

  test("has no notice without a limit, with a limit of 0, or after the end of the license", async () => {
    const unlimited = await issue(server.database, { tier: "enterprise" });
    const zero = await issueWith(0);
    const ended = await issue(server.database, {
      monthlyLimit: 10,
      expiresAt: new Date("2026-11-19T00:00:00Z"),
      now: new Date("2026-11-01T00:00:00Z"),
    });
    for (const { licenseUuid } of [unlimited, zero, ended]) await use(licenseUuid, { 1: 10 });
    await makeAt(server.database, NOW);
    expect(await shown(server.database, NOW, { kind: "quota_used" })).toEqual([]);
  });

  test("has the shares that the installation sets", async () => {
    const { licenseUuid } = await issueWith(1_000);
    await use(licenseUuid, { 3: 500 });
    await makeAt(server.database, NOW, { shares: [50, 90] });
    expect(await shown(server.database, NOW)).toEqual(["quota_used 50 open"]);
  });
});

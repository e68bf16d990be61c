/** Notices of licenses whose quota is used up before the month ends, at their rate. */
import { expect, test } from "bun:test";
import { toTextArray } from "../../src/database/mod.ts";
import { describeNotice } from "../../src/notices/mod.ts";
import { computeFigures } from "../../src/usage/figures/mod.ts";
import { createTestDatabase } from "../support/database.ts";
import { issue } from "../support/issue.ts";
import { useForEach } from "../support/use.ts";
import { makeAt, notices, shown } from "./notices_kit.ts";

const server = useForEach(createTestDatabase);
const KIND = { kind: "quota_runs_out" } as const;

/** Lets a license have used so many units on each day of November up to one. */
async function use(license: string, daily: number, until: number): Promise<void> {
  const byDay = Array.from({ length: 31 }, (_, index) => (index < until ? daily : 0));
  await server.database.query(
    (sql) => sql`
      insert into usage (license_id, month, used, by_day)
      values (${license}::uuid, '2026-11-01', ${daily * until}::bigint, ${toTextArray(byDay)}::bigint[])
      on conflict (license_id, month) do update set used = excluded.used, by_day = excluded.by_day`,
  );
}

async function compute(at: string): Promise<void> {
  const now = new Date(at);
  await computeFigures(server.database, { clock: { now: () => now, nowMs: () => 0, monotonicMs: () => 0 } });
}

test("A license has a notice while the stored figures say that its quota runs out", async () => {
  const { licenseUuid } = await issue(server.database, { monthlyLimit: 1_000, email: "ada@example.org" });
  await use(licenseUuid, 40, 19);
  await compute("2026-11-20T12:00:00Z");
  await makeAt(server.database, "2026-11-20T12:10:00Z");
  const [notice] = await notices(server.database, "2026-11-20");
  expect(notice).toMatchObject({ ...KIND, trueSince: new Date("2026-11-20T12:00:00Z") });
  expect(notice && describeNotice(notice)).toMatch(
    /will have used its quota up on 2026-11-\d\d, at the rate of the last seven days: 760 of 1,000 so far/,
  );
  // Figures that are a day old say nothing, and a rate that falls withdraws it after a day.
  await use(licenseUuid, 1, 19);
  await compute("2026-11-21T12:00:00Z");
  await makeAt(server.database, "2026-11-21T12:09:00Z");
  expect(await shown(server.database, "2026-11-21", KIND)).toEqual(["quota_runs_out 0 open"]);
  await makeAt(server.database, "2026-11-21T12:10:00Z");
  expect(await notices(server.database, "2026-11-21", KIND)).toMatchObject([
    { state: "withdrawn", withdrawnFor: "lasts" },
  ]);
});

test("A license has no notice of old figures, and loses it when the quota is used up or the month is over", async () => {
  const [one, other] = [
    await issue(server.database, { monthlyLimit: 1_000 }),
    await issue(server.database, { monthlyLimit: 1_000 }),
  ];
  for (const { licenseUuid } of [one, other]) await use(licenseUuid, 40, 19);
  await compute("2026-11-20T12:00:00Z");
  await makeAt(server.database, "2026-11-21T12:00:01Z");
  expect(await shown(server.database, "2026-11-20", KIND)).toEqual([]);
  await makeAt(server.database, "2026-11-20T13:00:00Z");
  await use(one.licenseUuid, 1_000, 1);
  await makeAt(server.database, "2026-11-20T13:10:00Z");
  const why = async () => (await notices(server.database, "2026-11-20", KIND)).map((row) => row.withdrawnFor);
  expect((await why()).toSorted()).toEqual([null, "used_up"]);
  await makeAt(server.database, "2026-12-01T00:00:00Z");
  expect((await why()).toSorted()).toEqual(["month_over", "used_up"]);
});

/** Tests the count of use with days in an unusual state: after a pause, and after a removed demo. */
import { expect, test } from "bun:test";
import { newUuid } from "../../../src/base/ids.ts";
import { changeLicense, createLicenseChanges, type Tier } from "../../../src/licensing/mod.ts";
import { commitEvents, countUse, readUsageDays, restartCount } from "../../../src/usage/mod.ts";
import { createTestDatabase } from "../../support/database.ts";
import { MUCH_ROOM, usageEvent } from "../../support/events.ts";
import { ACTOR, issue } from "../../support/issue.ts";
import { useForEach } from "../../support/use.ts";

const server = useForEach(createTestDatabase);

test("countUse() gives each day the tier at its end, if several days are over", async () => {
  let nowMs = Date.parse("2026-11-26T12:00:00Z");
  const clock = { now: () => new Date(nowMs), nowMs: () => nowMs, monotonicMs: () => nowMs };
  const { database } = server;
  const count = () => countUse(database, { clock, isStopping: () => false });
  const { licenseUuid } = await issue(database, { tier: "free" });
  await count();

  const useAndChange = async (at: string, tier: Tier) => {
    nowMs = Date.parse(at);
    await commitEvents(database, [usageEvent({ licenseUuid, receivedAtMs: nowMs })], {
      processUuid: newUuid(),
      textBounds: MUCH_ROOM,
      deadlineMs: 10_000,
    });
    await changeLicense(
      createLicenseChanges(database),
      { licenseUuid },
      { change: { tier }, actor: ACTOR, now: clock.now() },
    );
  };
  await useAndChange("2026-11-27T12:00:00Z", "free");
  await useAndChange("2026-11-28T12:00:00Z", "research");
  await useAndChange("2026-11-30T12:00:00Z", "commercial");
  await useAndChange("2026-12-01T12:00:00Z", "enterprise");
  nowMs = Date.parse("2026-12-03T12:00:00Z");
  await count();

  const use = await readUsageDays(database, { from: "2026-11-01", to: "2026-12-31" });
  expect(use?.exactUntil).toBe("2026-12-03");
  expect(use?.days.map(({ day, tier, used }) => ({ day, tier, used }))).toEqual([
    { day: "2026-11-27", tier: "free", used: 1 },
    { day: "2026-11-28", tier: "research", used: 1 },
    { day: "2026-11-30", tier: "commercial", used: 1 },
    { day: "2026-12-01", tier: "enterprise", used: 1 },
  ]);
});

test("countUse() removes the days of a month whose use was deleted while another process counted it", async () => {
  const now = new Date("2026-11-26T12:00:00Z");
  const clock = { now: () => now, nowMs: () => now.getTime(), monotonicMs: () => now.getTime() };
  const { database } = server;
  await restartCount(database);
  // The other process stores its earlier count.
  await database.query(
    (sql) => sql`
      insert into usage_days (day, is_imported, tier, mode, used) values ('2026-09-07', false, 'free', 'live', 5)`,
  );
  await countUse(database, { clock, isStopping: () => false });
  const use = await readUsageDays(database, { from: "2026-01-01", to: "2026-12-31" });
  expect(use).toMatchObject({ days: [], filledFrom: null });
});

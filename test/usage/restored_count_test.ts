/** The count of use continues in a restored database: with the events of the backup, and with those after it. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { monthOf } from "../../src/base/calendar.ts";
import { newUuid } from "../../src/base/ids.ts";
import type { Database } from "../../src/database/mod.ts";
import { commitEvents, countUse, listUsage, readUsageDays } from "../../src/usage/mod.ts";
import { backUp, restore } from "../installation/backup/backup_kit.ts";
import { MUCH_ROOM, usageEvent } from "../support/events.ts";
import { issue } from "../support/issue.ts";
import { useTestDatabase } from "../support/use.ts";
import { useFolder } from "../support/use_folder.ts";

const source = useTestDatabase();
const target = useTestDatabase({ empty: true });
const folder = useFolder();

test("countUse() equals the export after a restore of a backup that was made while a process counted", async () => {
  let nowMs = Date.parse("2026-11-29T12:00:00Z");
  const clock = { now: () => new Date(nowMs), nowMs: () => nowMs, monotonicMs: () => nowMs };
  const count = (database: Database) => countUse(database, { clock, isStopping: () => false });
  const { licenseUuid } = await issue(source.database, { tier: "free" });
  const commit = async ({ database }: typeof source, units: number) => {
    const events = Array.from({ length: units }, () => usageEvent({ licenseUuid, receivedAtMs: nowMs }));
    await commitEvents(database, events, {
      processUuid: newUuid(),
      textBounds: MUCH_ROOM,
      deadlineMs: 10_000,
    });
  };
  await count(source.database);
  await commit(source, 3);
  nowMs += 60_000;
  await count(source.database);
  // Not counted by day yet. The process counts until then at the latest.
  await commit(source, 4);
  const busyUntil = new Date(nowMs + 600_000);
  await source.database.query(
    (sql) => sql`update usage_days_progress set busy_until = ${busyUntil}::timestamptz`,
  );
  await backUp(source.address, join(folder, "backup"));
  // Lost with the source.
  await commit(source, 50);
  await restore(target.address, join(folder, "backup"));

  nowMs += 700_000;
  await commit(target, 5);
  nowMs += 60_000;
  await count(target.database);
  const read = () => readUsageDays(target.database, { from: "2026-11-01", to: "2026-12-31" });
  expect((await read())?.days).toEqual([{ day: "2026-11-29", tier: "free", mode: "live", used: 12 }]);
  nowMs = Date.parse("2026-12-01T00:01:00Z");
  await count(target.database);
  const exported = await listUsage(target.database, monthOf(Date.parse("2026-11-01")));
  expect(exported.map(({ used }) => used)).toEqual([12]);
  expect((await read())?.days).toEqual([{ day: "2026-11-29", tier: "free", mode: "live", used: 12 }]);
});

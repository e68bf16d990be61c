/** The use per day of all licenses is right after the next count: with the days of reports, and without what is over. */
import { beforeEach, expect, test } from "bun:test";
import { newUuid } from "../../../src/base/ids.ts";
import { commitEvents, countUse, importReport } from "../../../src/usage/mod.ts";
import { createTestDatabase } from "../../support/database.ts";
import { MUCH_ROOM, usageEvent } from "../../support/events.ts";
import { ACTOR, issue } from "../../support/issue.ts";
import { useForEach } from "../../support/use.ts";
import { compareWithExport, readDays } from "../figures/compare_days.ts";
import { createJournal, parsed } from "./report_kit.ts";

const server = useForEach(createTestDatabase);
const BEGAN_MS = Date.parse("2026-11-20T12:00:00Z");
let nowMs = BEGAN_MS;
beforeEach(() => {
  nowMs = BEGAN_MS;
});
const clock = { now: () => new Date(nowMs), nowMs: () => nowMs, monotonicMs: () => nowMs };

const count = () => countUse(server.database, { clock, isStopping: () => false });

async function send(text: string): Promise<void> {
  const options = { actor: ACTOR, now: clock.now(), textBounds: MUCH_ROOM };
  await importReport(server.database, await parsed(text), options);
}

async function days(): Promise<Record<string, number>> {
  const { days } = await readDays(server.database);
  return Object.fromEntries(days.map(({ day, used }) => [day, used]));
}

test("countUse() counts the days of reports again, and never what is over", async () => {
  const { licenseUuid } = await issue(server.database, { monthlyLimit: 10 });
  await count();
  const event = (hour: number, key: string) => ({
    ...{ idempotency_key: key, event_type: "inference" },
    occurred_at: `2026-11-20T${String(hour).padStart(2, "0")}:00:00Z`,
  });
  const journal = createJournal(licenseUuid);
  await send(
    journal.next({
      days: [
        { day: "2026-03-31", count: 4 },
        { day: "2026-11-18", count: 7 },
      ],
    }),
  );
  await send(
    journal.next({
      days: [{ day: "2026-11-20", count: 5 }],
      events: [1, 2, 3, 4, 5].map((hour) => event(hour, `e${hour}`)),
    }),
  );
  nowMs += 120_000;
  await count();
  // What was reported of today is counted at its end.
  expect(await days()).toEqual({ "2026-03-31": 4, "2026-11-18": 7 });
  nowMs = Date.parse("2026-11-21T00:01:00Z");
  await count();
  expect(await days()).toEqual({ "2026-03-31": 4, "2026-11-18": 7, "2026-11-20": 3 });
  expect(await compareWithExport(server.database, nowMs)).toBeGreaterThan(0);
  // A report of a day that was counted, beside events that clients send.
  const { licenseUuid: other } = await issue(server.database, {});
  await send(createJournal(other).next({ days: [{ day: "2026-11-18", count: 2 }] }));
  await commitEvents(server.database, [usageEvent({ licenseUuid: other, receivedAtMs: nowMs })], {
    ...{ processUuid: newUuid(), textBounds: MUCH_ROOM, deadlineMs: 10_000 },
  });
  nowMs += 120_000;
  await count();
  expect(await days()).toEqual({ "2026-03-31": 4, "2026-11-18": 9, "2026-11-20": 3, "2026-11-21": 1 });
  nowMs = Date.parse("2026-11-22T00:01:00Z");
  await count();
  expect(await days()).toEqual({ "2026-03-31": 4, "2026-11-18": 9, "2026-11-20": 3, "2026-11-21": 1 });
});

test("countUse() counts the days of a clock that is ahead when they come, and none before", async () => {
  const { licenseUuid } = await issue(server.database, { monthlyLimit: 10 });
  await count();
  const journal = createJournal(licenseUuid);
  const ahead = await parsed(
    journal.next({
      made_at: "2027-01-04T12:00:00Z",
      days: [
        { day: "2026-11-25", count: 4 },
        { day: "2027-01-03", count: 12 },
      ],
    }),
  );
  const options = { now: clock.now(), textBounds: MUCH_ROOM, allowed: { clockAhead: true } };
  await importReport(server.database, ahead, { ...options, actor: { ...ACTOR, reason: "battery" } });
  nowMs += 120_000;
  await count();
  expect(await days()).toEqual({});
  nowMs = Date.parse("2026-11-26T01:00:00Z");
  await count();
  expect(await days()).toMatchObject({ "2026-11-25": 4 });
  nowMs = Date.parse("2027-01-04T01:00:00Z");
  for (let times = 0; times < 3; times++) await count();
  expect(await days()).toMatchObject({ "2026-11-25": 4, "2027-01-03": 10 });
});

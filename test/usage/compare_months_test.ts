/** The use of a month beside the month before. */
import { expect, test } from "bun:test";
import { MONTH, type Month } from "../../src/base/calendar.ts";
import { compareMonths, type UsageDays } from "../../src/usage/mod.ts";

const NOW = new Date("2026-11-22T15:43:44Z");
const FROM = "2024-11-01";

const monthOf = (text: string) => MONTH.parse(text) as Month;
const rowOf = { tier: "free", mode: "live" } as const;
const useOf = (days: Record<string, number>, more: Partial<UsageDays> = {}): UsageDays => ({
  asOf: NOW,
  exactUntil: "2026-11-22",
  filledFrom: null,
  days: Object.entries(days).map(([day, used]) => ({ day, used, ...rowOf })),
  imported: [],
  ...more,
});
const compare = (use: UsageDays, month = "2026-11", now = NOW) =>
  compareMonths(use, monthOf(month), { from: FROM, now });

test("The present month is compared by the days that are over, and counted with today", () => {
  const use = useOf({
    "2026-10-01": 100,
    "2026-10-21": 50,
    "2026-10-22": 1_000,
    "2026-11-01": 100,
    "2026-11-21": 80,
    "2026-11-22": 7,
  });
  expect(compare(use)).toEqual({ used: 187, imported: 0, same: { used: 180, before: 150, days: 21 } });
});

test("Imported use counts for whole months, and not beside days", () => {
  const imported = [
    { month: "2026-09", used: 10, ...rowOf },
    { month: "2026-10", used: 20, ...rowOf },
    { month: "2026-11", used: 30, ...rowOf },
  ];
  const use = useOf({ "2026-09-30": 1, "2026-10-31": 2, "2026-11-02": 3 }, { imported });
  expect(compare(use, "2026-10")).toEqual({ used: 22, imported: 20, same: { used: 22, before: 11 } });
  expect(compare(use)).toEqual({ used: 33, imported: 30, same: { used: 3, before: 0, days: 21 } });
});

test("A month is compared with a shorter one before it by the days that both have", () => {
  const use = useOf({ "2026-02-28": 5, "2026-03-28": 4, "2026-03-29": 6, "2026-03-31": 9 });
  expect(compare(use, "2026-03", new Date("2026-03-31T12:00:00Z")).same).toEqual({
    ...{ used: 4, before: 5, days: 28 },
  });
});

test("Nothing is compared on the first day, and where the month before was not counted or not read", () => {
  const use = useOf({ "2026-10-01": 1, "2026-11-01": 2 });
  expect(compare(use, "2026-11", new Date("2026-11-01T08:00:00Z"))).toEqual({ used: 2, imported: 0 });
  expect(compare({ ...use, filledFrom: "2026-10-15" })).toEqual({ used: 2, imported: 0 });
  expect(compare({ ...use, filledFrom: "2026-10-01" }).same).toBeDefined();
  expect(compare(useOf({ "2024-11-01": 3 }), "2024-11")).toEqual({ used: 3, imported: 0 });
});

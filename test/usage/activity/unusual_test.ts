import { describe, expect, test } from "bun:test";
import type { ActivityCount } from "../../../src/usage/activity/mod.ts";
import { compareWithEarlier, findUnusual } from "../../../src/usage/activity/unusual.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const AT = new Date("2026-11-22T09:00:00Z");
const NOW = new Date("2026-11-22T11:00:00Z");

/** The counts of one name in the same hour of each day. The first count is that of `AT`, each next one a day older. */
function days(name: string, ...counts: number[]): ActivityCount[] {
  return counts.flatMap((count, day) =>
    count === 0 ? [] : [{ at: new Date(AT.getTime() - day * DAY_MS), name, count }],
  );
}

const before = (count: number) => Array<number>(28).fill(count);
const firstHour = new Date(AT.getTime() - 28 * DAY_MS);

const find = (counts: readonly ActivityCount[], options: Partial<Parameters<typeof findUnusual>[1]> = {}) =>
  findUnusual(counts, { hours: [AT], firstHour, now: NOW, ...options }).map(
    ({ name, kind, count, lowest, highest }) => `${name} ${kind} ${count}, ${lowest} to ${highest}`,
  );

describe("compareWithEarlier()", () => {
  test.each([
    // High: above twice the highest, and at least 20 more than it.
    [41, [20, 3], "high"],
    [40, [20, 3], undefined],
    [20, [0, 0], "high"],
    [19, [0, 0], undefined],
    [29, [10], undefined],
    [30, [10], "high"],
    // Low: below half the lowest, and at least 20 less than it.
    [19, [40, 90], "low"],
    [20, [40, 90], undefined],
    [0, [20, 25], "low"],
    [0, [19, 25], undefined],
    [49, [100, 1_000], "low"],
    [50, [100, 1_000], undefined],
    [500, [], undefined],
  ] as const)("%d after %j: %s", (count, earlier, kind) => {
    expect(compareWithEarlier(count, earlier)?.kind).toBe(kind);
  });
});

describe("findUnusual()", () => {
  test("compares an hour with the same hour of the 28 days before, for each name", () => {
    expect(
      find([
        ...days("INVALID_KEY", 90, ...before(5)),
        ...days("OK", 200, ...before(190)),
        ...days("NEW", 20),
      ]),
    ).toEqual(["INVALID_KEY high 90, 5 to 5", "NEW high 20, 0 to 0"]);
  });

  test("finds nothing if one of the 28 days had at least half the count, and ignores the days before them", () => {
    expect(find(days("OK", 90, ...before(5).with(27, 45)))).toEqual([]);
    expect(find(days("OK", 90, ...before(5), 45))).toEqual(["OK high 90, 5 to 5"]);
  });

  test("compares with no other hour of a day, and with no day before the first hour of the table", () => {
    const other = { at: new Date(AT.getTime() - DAY_MS - HOUR_MS), name: "OK", count: 90 };
    expect(find([...days("OK", 90, ...before(5)), other])).toEqual(["OK high 90, 5 to 5"]);
    const counts = days("OK", 0, 30, 30);
    expect(find(counts)).toEqual([]);
    expect(find(counts, { firstHour: new Date(AT.getTime() - 2 * DAY_MS) })).toEqual(["OK low 0, 30 to 30"]);
    expect(find(days("OK", 90), { firstHour: AT })).toEqual([]);
    expect(find(days("OK", 90), { firstHour: undefined })).toEqual([]);
  });

  test("an hour that has not ended, or has just ended, can only be high", () => {
    const now = (minutes: number) => ({ now: new Date(AT.getTime() + minutes * 60_000) });
    expect(find(days("OK", 1, ...before(50)), now(61))).toEqual([]);
    expect(find(days("OK", 1, ...before(50)), now(62))).toEqual(["OK low 1, 50 to 50"]);
    expect(find(days("OK", 101, ...before(50)), now(1))).toEqual(["OK high 101, 50 to 50"]);
  });

  test("gives the latest hour first", () => {
    const next = new Date(AT.getTime() + HOUR_MS);
    const counts = [...days("OK", 90, ...before(5)), { at: next, name: "OK", count: 50 }];
    expect(find(counts, { hours: [AT, next] })).toEqual(["OK high 50, 0 to 0", "OK high 90, 5 to 5"]);
  });
});

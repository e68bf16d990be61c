/** Which backups of a folder stay. */
import { describe, expect, test } from "bun:test";
import { KEEP_RULE, selectKept } from "../../../src/installation/backup/keep_rule.ts";

const HOUR_MS = 3_600_000;

function kept(times: readonly string[], rule: string): string[] {
  const selected = selectKept(times.map(Date.parse), KEEP_RULE.parse(rule) ?? {});
  return times.filter((time) => selected.has(Date.parse(time)));
}

describe("KEEP_RULE", () => {
  test.each([
    ["24h,7d,5w", { h: 24, d: 7, w: 5 }],
    ["5w", { w: 5 }],
    ["9999d,1h", { d: 9_999, h: 1 }],
  ])("reads %s", (text, rule) => expect(KEEP_RULE.parse(text)).toEqual(rule));

  test.each(["", "0h", "24", "h", "24H", "24h,", "24h,3h", "10000h", "1m", "24h 7d", "-1h", "1h,2d,3w,4h"])(
    "refuses %j",
    (text) => expect(KEEP_RULE.parse(text)).toBeUndefined(),
  );
});

describe("selectKept()", () => {
  test("keeps the newest of each hour, day and week by UTC; a week begins on Monday", () => {
    // 2026-11-23 is a Monday.
    const sunday = ["2026-11-22T00:00:00Z", "2026-11-22T23:59:59Z"];
    const monday = ["2026-11-23T00:00:00Z", "2026-11-23T00:59:59Z", "2026-11-23T01:00:00Z"];
    const times = [...sunday, ...monday];
    expect(kept(times, "2h")).toEqual(["2026-11-23T00:59:59Z", "2026-11-23T01:00:00Z"]);
    expect(kept(times, "2d")).toEqual(["2026-11-22T23:59:59Z", "2026-11-23T01:00:00Z"]);
    expect(kept(times, "1w")).toEqual(["2026-11-23T01:00:00Z"]);
    expect(kept(times, "2w")).toEqual(["2026-11-22T23:59:59Z", "2026-11-23T01:00:00Z"]);
  });

  test("keeps 24 of a day, 7 days and 5 weeks of a year of hourly backups, made one after the other", () => {
    const rule = KEEP_RULE.parse("24h,7d,5w") ?? {};
    let left: number[] = [];
    const beganMs = Date.parse("2026-01-01T00:05:00Z");
    for (let hour = 0; hour < 365 * 24; hour++) {
      const timeMs = beganMs + hour * HOUR_MS;
      const selected = selectKept([...left, timeMs], rule);
      expect(selected.has(timeMs)).toBe(true);
      left = [...selected];
    }
    const ages = left.map((timeMs) => (beganMs + (365 * 24 - 1) * HOUR_MS - timeMs) / HOUR_MS);
    const hours = ages.toSorted((a, b) => a - b);
    expect(hours.slice(0, 24)).toEqual(Array.from({ length: 24 }, (_, hour) => hour));
    expect(left.length).toBeGreaterThanOrEqual(24 + 6 + 3);
    expect(left.length).toBeLessThanOrEqual(24 + 7 + 5);
    expect(hours.at(-1)).toBeGreaterThan(3 * 7 * 24);
  });

  test("removes nothing because of a pause: only hours with a backup count", () => {
    const times = ["2025-01-01T00:00:00Z", "2025-01-01T01:00:00Z", "2026-11-27T04:00:00Z"];
    expect(kept(times, "3h")).toEqual(times);
    expect(kept(times, "2h")).toEqual(times.slice(1));
  });
});

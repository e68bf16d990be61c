import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import {
  DAY_MS,
  endOfDay,
  HOUR_MS,
  monthOf,
  parseEnd,
  parseTimestamp,
  SPAN,
  toMonth,
  toTimestamp,
} from "../../src/base/calendar.ts";

test("toTimestamp() writes UTC to the second", () => {
  expect(toTimestamp(new Date("2026-12-01T01:02:03.999+01:00"))).toBe("2026-12-01T00:02:03Z");
});

describe("parseTimestamp()", () => {
  const good: [text: string, instant: string][] = [
    ["2026-12-01T00:00:00Z", "2026-12-01T00:00:00.000Z"],
    ["2026-12-01T00:00:00.25Z", "2026-12-01T00:00:00.250Z"],
    ["2026-12-01T01:30+01:30", "2026-12-01T00:00:00.000Z"],
    ["2026-12-01", "2026-12-01T00:00:00.000Z"],
    ["2028-02-29T23:00:00-05:00", "2028-03-01T04:00:00.000Z"],
    ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.000Z"],
    ["1000-01-01", "1000-01-01T00:00:00.000Z"],
  ];
  test.each(good)("reads %s", (text, instant) => {
    expect(parseTimestamp(text)?.toISOString()).toBe(instant);
  });

  const bad = [
    "",
    "tomorrow",
    "2026-12-01T00:00:00",
    "2026-12-01 00:00:00Z",
    "2026-12-1",
    "2026-02-30",
    "2026-02-29T00:00:00Z",
    "2026-13-01",
    "2026-12-01T25:00:00Z",
    "2026-12-01T00:00:00Z ",
    "12026-12-01",
    "1796083200",
    "0000-01-01",
    "0099-12-31",
    "0999-12-31T23:59:59Z",
    "1000-01-01T00:00:00+00:01",
    "9999-12-31T23:59:59-00:01",
  ];
  test.each(bad)("refuses %p", (text) => {
    expect(parseTimestamp(text)).toBeUndefined();
  });

  test("reads every timestamp that toTimestamp() writes", () => {
    const instants = fc.integer({ min: 0, max: 253_402_300_799 });
    void fc.assert(
      fc.property(instants, (seconds) => {
        expect(parseTimestamp(toTimestamp(new Date(seconds * 1000)))?.getTime()).toBe(seconds * 1000);
      }),
    );
  });
});

describe("parseEnd()", () => {
  test.each([
    ["2026-12-01", "2026-12-01T23:59:59.000Z"],
    ["2028-02-29", "2028-02-29T23:59:59.000Z"],
    ["9999-12-31", "9999-12-31T23:59:59.000Z"],
    ["2026-12-01T00:00:00Z", "2026-12-01T00:00:00.000Z"],
    ["2026-12-01T24:00Z", "2026-12-02T00:00:00.000Z"],
    ["2028-02-29T23:00:00-05:00", "2028-03-01T04:00:00.000Z"],
  ])("reads %s", (text, instant) => {
    expect(parseEnd(text)?.toISOString()).toBe(instant);
  });

  test.each(["", "2026-02-30", "2026-12-1", "0999-12-31", "2026-12", "tomorrow"])("refuses %p", (text) => {
    expect(parseEnd(text)).toBeUndefined();
  });

  test("endOfDay() of any moment of a day is what the day alone means", () => {
    for (const time of ["T00:00:00.000Z", "T12:00:00Z", "T23:59:59.999Z"])
      expect(endOfDay(new Date(`2026-12-01${time}`))).toEqual(parseEnd("2026-12-01") as Date);
  });
});

describe("SPAN", () => {
  test("reads days and hours in at most five digits, up to ten years", () => {
    for (let number = 0; number <= 100_000; number++) {
      for (const [letter, unitMs] of [
        ["d", DAY_MS],
        ["h", HOUR_MS],
      ] as const) {
        const isAllowed = number * unitMs <= 3_650 * DAY_MS;
        for (const digits of new Set([
          `${number}`,
          `${number}`.padStart(4, "0"),
          `${number}`.padStart(5, "0"),
        ])) {
          const text = digits + letter;
          if (SPAN.parse(text) === (isAllowed ? number * unitMs : undefined)) continue;
          expect({ text, ms: SPAN.parse(text) }).toEqual({
            text,
            ms: isAllowed ? number * unitMs : undefined,
          });
        }
      }
    }
  });

  test.each(["", "7", "d", "7w", "7D", " 7d", "7d ", "-1d", "1.5d", "7d12h", "000007d"])(
    "refuses %p",
    (text) => {
      expect(SPAN.parse(text)).toBeUndefined();
    },
  );
});

describe("monthOf()", () => {
  test("begins a month with its first millisecond in UTC", () => {
    expect(monthOf(Date.parse("2026-12-31T23:59:59.999Z")).firstDay).toBe("2026-12-01");
    const january = monthOf(Date.parse("2027-01-01T00:00:00.000Z"));
    expect(january).toMatchObject({ firstDay: "2027-01-01", resetsAt: "2027-02-01T00:00:00Z" });
  });

  test("counts months, across years too", () => {
    const december = monthOf(Date.parse("2026-12-15T00:00:00Z"));
    expect(toMonth(december.index + 1)).toMatchObject({ firstDay: "2027-01-01" });
    expect(toMonth(december.index)).toEqual(december);
  });

  test("returns the month that contains an instant, for instants in any order", () => {
    void fc.assert(
      fc.property(fc.integer({ min: 0, max: 4e12 }), (atMs) => {
        const month = monthOf(atMs);
        expect(atMs).toBeGreaterThanOrEqual(month.beginsAtMs);
        expect(atMs).toBeLessThan(month.endsAtMs);
        expect(month.firstDay).toBe(`${new Date(atMs).toISOString().slice(0, 7)}-01`);
      }),
    );
  });
});

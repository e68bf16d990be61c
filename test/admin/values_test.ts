import { expect, test } from "bun:test";
import { Day, Size, Used } from "../../src/admin/frame/console/components/values.tsx";
import { toBytes } from "../../src/models/mod.ts";

test("Size() shows three digits and the unit that fits", () => {
  const sizes: [bytes: number, shown: string][] = [
    [0, "0 B"],
    [363, "363 B"],
    [700_000, "700 kB"],
    [2_412_300, "2.41 MB"],
    [1_234_500_000, "1.23 GB"],
    [1e15, "1,000 TB"],
  ];
  for (const [bytes, shown] of sizes) expect(Size({ bytes })).toBe(shown);
  // Models have their sizes in megabytes.
  for (const [megabytes, shown] of [
    [0.000363, "363 B"],
    [2.41, "2.41 MB"],
  ] as const)
    expect(Size({ bytes: toBytes(megabytes) })).toBe(shown);
});

test("Used() warns from 80 percent on, in words and not by color alone, and never says more than there is", () => {
  const shown = (used: number, limit: number) =>
    /class="(bar[^"]*)".*?<\/svg>(?:<small class="near">(.*?)<\/small>)?/
      .exec(String(Used({ used, limit })))
      ?.slice(1)
      .join("; ");
  expect(shown(799, 1_000)).toBe("bar; ");
  expect(shown(800, 1_000)).toBe("bar near; 80 % used");
  expect(shown(876, 1_000)).toBe("bar near; 87 % used");
  expect(shown(99_999, 100_000)).toBe("bar near; 99 % used");
  expect(shown(1_001, 1_000)).toBe("bar near; 100 % used");
  expect(shown(497_500, 400_000)).toBe("bar near; 124 % used");
  expect(String(Used({ used: 497_500, limit: 400_000 }))).toContain('<rect width="100"');
  expect(shown(0, 0)).toBe("bar near; 100 % used");
  expect(String(Used({ used: 5_000, limit: null }))).toBe("5,000, unlimited");
});

test("Day() counts the days until a near day by the calendar, and the hours of today", () => {
  const now = new Date("2026-11-27T19:00:00Z");
  const shown = (at: string) => /<small>(.*?)</.exec(String(Day({ at: new Date(at), now })))?.[1];
  expect(shown("2026-12-01T00:00:00Z")).toBe("in 4 days");
  expect(shown("2026-11-28T23:59:59Z")).toBe("tomorrow");
  expect(shown("2026-11-27T23:59:59Z")).toBe("in 4 hours");
  expect(shown("2026-11-20T19:00:00Z")).toBe("7 days ago");
  expect(shown("2027-11-27T23:59:59Z")).toBe("in 12 months");
});

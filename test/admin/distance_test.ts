import { describe, expect, test } from "bun:test";
import { daysUntil } from "../../src/admin/frame/console/components/values.tsx";
import { distanceOf } from "../../src/admin/frame/console/distance.ts";

const NOW = new Date("2026-11-22T12:00:00Z");

describe("distanceOf()", () => {
  const rows: [at: string, distance: string][] = [
    ["2026-11-22T12:00:59Z", "now"],
    ["2026-11-22T11:59:01Z", "now"],
    ["2026-11-22T12:01:00Z", "in 1 minute"],
    ["2026-11-22T10:00:01Z", "119 minutes ago"],
    ["2026-11-22T10:00:00Z", "2 hours ago"],
    ["2026-11-24T11:59:59Z", "in 47 hours"],
    ["2026-12-04T12:00:00Z", "in 12 days"],
    ["2026-09-23T00:00:00Z", "60 days ago"],
    ["2026-08-14T12:00:00Z", "100 days ago"],
    ["2026-08-13T12:00:00Z", "3 months ago"],
    ["2027-01-21T23:59:59Z", "in 60 days"],
    ["2027-02-20T12:00:00Z", "in 90 days"],
    ["2027-03-03T11:59:59Z", "in 100 days"],
    ["2027-03-03T12:00:00Z", "in 3 months"],
    ["2027-11-21T23:59:59Z", "in 11 months"],
    ["2027-11-22T11:59:59Z", "in 12 months"],
    ["2027-11-23T00:00:00Z", "in 12 months"],
    ["2028-11-21T12:00:00Z", "in 23 months"],
    ["2028-11-22T11:59:59Z", "in 2 years"],
    ["2016-11-20T12:00:00Z", "10 years ago"],
  ];
  for (const [at, distance] of rows) {
    test(`shows ${at} as "${distance}"`, () => expect(distanceOf(new Date(at), NOW)).toBe(distance));
  }
});

test("daysUntil() counts days, and says today and tomorrow", () => {
  const now = new Date("2026-11-27T18:00:00Z");
  const texts = ["2026-11-27", "2026-11-28", "2026-12-03"].map((day) => daysUntil(day, now));
  expect(texts).toEqual(["today", "tomorrow", "in 6 days"]);
});

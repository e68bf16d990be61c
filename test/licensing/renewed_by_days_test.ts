import { expect, test } from "bun:test";
import { renewedByDays } from "../../src/licensing/mod.ts";

const NOW = new Date("2026-11-20T12:00:00.700Z");

test.each([
  ["the present expiry", "2027-01-01T23:59:59Z", "2027-01-31T23:59:59Z"],
  ["now, to the second, if that has passed", "2026-11-19T23:59:59Z", "2026-12-20T12:00:00Z"],
  ["the present expiry, but never beyond the end of time", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"],
])("renewedByDays() counts from %s", (_, expiresAt, renewed) => {
  expect(renewedByDays(new Date(expiresAt), { days: 30, now: NOW })).toEqual(new Date(renewed));
});

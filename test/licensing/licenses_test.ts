import { describe, expect, test } from "bun:test";
import { NEVER_EXPIRES } from "../../src/base/calendar.ts";
import { renewedByDays } from "../../src/licensing/mod.ts";

describe("renewedByDays()", () => {
  const now = new Date("2026-11-29T12:00:00.750Z");
  const renew = (expiresAt: string, days: number) => renewedByDays(new Date(expiresAt), { days, now });

  test("renewedByDays() counts from the present expiry, and from now, in whole seconds, if that has passed", () => {
    expect(renew("2026-12-01T23:59:59Z", 30)).toEqual(new Date("2026-12-31T23:59:59Z"));
    expect(renew("2026-11-01T23:59:59Z", 30)).toEqual(new Date("2026-12-29T12:00:00Z"));
  });

  test("renewedByDays() never goes beyond the expiry of a license without an end", () => {
    expect(renew(NEVER_EXPIRES.toISOString(), 1)).toEqual(NEVER_EXPIRES);
    expect(renew("9999-12-30T00:00:00Z", 3_650)).toEqual(NEVER_EXPIRES);
  });
});

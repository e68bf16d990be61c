/** The forecast of the stored figures: which licenses use up their quota before the month ends, and on which day. */
import { describe, expect, test } from "bun:test";
import { isRefusal } from "../../../src/base/refusal.ts";
import type { Sql } from "../../../src/database/mod.ts";
import { listKeys, revokeKey } from "../../../src/licensing/keys/mod.ts";
import { createLicenseChanges, eraseAccount } from "../../../src/licensing/mod.ts";
import { computeFigures, findStoredLists, readFigures } from "../../../src/usage/figures/mod.ts";
import { createTestDatabase } from "../../support/database.ts";
import { ACTOR, issue, orThrow } from "../../support/issue.ts";
import { accountOf, uuidOf } from "../../support/keys.ts";
import { useForEach } from "../../support/use.ts";

const server = useForEach(createTestDatabase);

/** Stores the use of a license by day, and what has no day under an empty name. */
async function use(license: string, byDay: Readonly<Record<string, number>>): Promise<void> {
  for (const [day, units] of Object.entries(byDay))
    await server.database.query(
      (sql) => sql`
        insert into usage as u (license_id, month, used, by_day)
        select ${license}::uuid, date_trunc('month', ${day}::date)::date, ${units}::bigint,
               array(select case n when extract(day from ${day}::date) then ${units}::bigint else 0 end
                       from generate_series(1, 31) as n)
        on conflict (license_id, month) do update
          set used = u.used + excluded.used,
              by_day = array(select a + b from unnest(u.by_day, excluded.by_day) with ordinality as t (a, b, n) order by n)`,
    );
}

/** Issues a key, with the same use on each of some days. */
async function issueUsed(daily: number, days: readonly string[], request: Parameters<typeof issue>[1] = {}) {
  const key = await issue(server.database, { monthlyLimit: 1_000, ...request });
  await use(key.licenseUuid, Object.fromEntries(days.map((day) => [day, daily])));
  return key;
}

function days(first: number, last: number, month = "2026-11"): string[] {
  return Array.from({ length: last - first + 1 }, (_, n) => `${month}-${String(first + n).padStart(2, "0")}`);
}

/** Returns the day on which each license runs out, in the order of the figure. */
async function compute(at: string): Promise<Record<string, string>> {
  const now = new Date(at);
  await computeFigures(server.database, { clock: { now: () => now, nowMs: () => 0, monotonicMs: () => 0 } });
  const { runsOut } = (await readFigures(server.database)) ?? {};
  return Object.fromEntries((runsOut?.rows ?? []).map(({ email, day }) => [email, day]));
}

describe("the figure runs_out", () => {
  test("divides what remains by the mean of the last seven days that are over", async () => {
    // Used 700 of 1,000 until the 20th, and nothing today: 300 last three days from noon on.
    await issueUsed(100, days(14, 20), { email: "steady@example.org" });
    // Today's use counts as used, and not for the rate: 200 last two days.
    const today = await issueUsed(100, days(14, 20), { email: "today@example.org" });
    await use(today.licenseUuid, { "2026-11-21": 100 });
    expect(await compute("2026-11-21T12:00:00Z")).toEqual({
      "today@example.org": "2026-11-23",
      "steady@example.org": "2026-11-24",
    });
  });

  test("counts a day without use as 0", async () => {
    // Not used in the last seven days.
    await issueUsed(80, days(10, 13), { email: "one@example.org" });
    await issueUsed(50, [...days(7, 14), ...days(16, 20)], {
      email: "gap@example.org",
      monthlyLimit: 850,
    });
    // 300 in seven days; 200 remain, which last 4.67 days.
    expect(await compute("2026-11-21T12:00:00Z")).toEqual({ "gap@example.org": "2026-11-26" });
  });

  test("needs seven days of use that are over", async () => {
    await issueUsed(100, days(14, 20), { email: "seven@example.org" });
    await issueUsed(140, days(15, 20), { email: "six@example.org" });
    const longAgo = await issueUsed(1, ["2026-08-31"], { email: "long-ago@example.org" });
    await use(longAgo.licenseUuid, { "2026-11-15": 700 });
    expect(Object.keys(await compute("2026-11-21T00:00:00Z"))).toEqual([
      "seven@example.org",
      "long-ago@example.org",
    ]);
    // The first day is not over one millisecond earlier.
    expect(Object.keys(await compute("2026-11-20T23:59:59.999Z"))).toEqual(["long-ago@example.org"]);
  });

  test("names no license without a limit, that has used its quota up, or whose quota lasts until the month ends", async () => {
    await issueUsed(1_000, days(1, 20), {
      email: "unlimited@example.org",
      tier: "enterprise",
      monthlyLimit: undefined,
    });
    await issueUsed(50, days(1, 20), { email: "used-up@example.org" });
    // Exactly until the end of the month: ten days with 30 each.
    await issueUsed(30, days(14, 20), { email: "lasts@example.org", monthlyLimit: 510 });
    await issueUsed(30, days(14, 20), { email: "ends@example.org", monthlyLimit: 509 });
    await issueUsed(0, [], { email: "unused@example.org" });
    expect(await compute("2026-11-21T00:00:00Z")).toEqual({ "ends@example.org": "2026-11-30" });
  });

  test("takes the days before the month from the last month", async () => {
    await issueUsed(100, days(24, 30), { email: "all@example.org" });
    const both = await issueUsed(100, days(27, 30), { email: "both@example.org" });
    await use(both.licenseUuid, { "2026-10-27": 1 });
    expect(await compute("2026-12-01T00:00:00Z")).toEqual({
      "all@example.org": "2026-12-11",
      "both@example.org": "2026-12-18",
    });
    await use(both.licenseUuid, Object.fromEntries(days(1, 2, "2026-12").map((day) => [day, 300])));
    // (4 · 100 + 2 · 300) / 7 a day; 400 remain, which last 2.8 days.
    expect(await compute("2026-12-03T12:00:00Z")).toMatchObject({ "both@example.org": "2026-12-06" });
  });

  test("leaves out revoked keys and expired licenses, and lists enterprise first", async () => {
    const now = new Date("2026-11-21T12:00:00Z");
    const revoked = await issueUsed(100, days(14, 20), { email: "revoked@example.org" });
    const changes = createLicenseChanges(server.database);
    orThrow(await revokeKey(changes, { uuid: uuidOf(revoked) }, { actor: ACTOR, now }));
    await issueUsed(100, days(14, 20), {
      email: "expired@example.org",
      expiresAt: new Date("2026-11-21T10:00:00Z"),
    });
    const free = await issueUsed(120, days(14, 20), { email: "free@example.org", tier: "free" });
    await issueUsed(100, days(14, 20), { email: "late@example.org", tier: "enterprise" });
    await issueUsed(110, days(14, 20), { email: "early@example.org", tier: "enterprise" });
    expect(Object.keys(await compute(now.toISOString()))).toEqual([
      "early@example.org",
      "late@example.org",
      "free@example.org",
    ]);
    const list = async () => {
      const stored = [{ keys: 3, select: (sql: Sql) => sql`select key_id from figure_runs_out` }];
      const keys = await listKeys(server.database, { now, filter: { stored } });
      return keys.map(({ email, runsOutOn }) => `${email} ${runsOutOn}`);
    };
    const enterprise = ["late@example.org 2026-11-24", "early@example.org 2026-11-23"];
    expect(await list()).toEqual(["free@example.org 2026-11-22", ...enterprise]);
    // The stored list is older than the end of a key.
    orThrow(await revokeKey(changes, { uuid: uuidOf(free) }, { actor: ACTOR, now }));
    orThrow(await eraseAccount(server.database, accountOf(free), { actor: ACTOR, now }));
    expect(await list()).toEqual([expect.stringMatching(/^erased-.* null$/), ...enterprise]);
    expect(Object.keys(await compute(now.toISOString()))).toEqual(["early@example.org", "late@example.org"]);
    expect(await list()).toEqual(enterprise);
  });

  test("has the keys whose quota is used up in its list, and not in its rows", async () => {
    const now = new Date("2026-11-21T12:00:00Z");
    await issueUsed(500, ["2026-11-20", "2026-11-21"], { email: "used-up@example.org" });
    await issue(server.database, { email: "none@example.org", monthlyLimit: 0 });
    await issueUsed(999, ["2026-11-21"], { email: "one-left@example.org" });
    const revoked = await issueUsed(1_000, ["2026-11-21"], { email: "revoked@example.org" });
    orThrow(
      await revokeKey(
        createLicenseChanges(server.database),
        { uuid: uuidOf(revoked) },
        { actor: ACTOR, now },
      ),
    );
    await issueUsed(1_000, ["2026-11-21"], {
      email: "expired@example.org",
      expiresAt: new Date("2026-11-21T10:00:00Z"),
    });
    // It runs out on the 24th.
    await issueUsed(100, days(14, 20), { email: "steady@example.org" });
    expect(await compute(now.toISOString())).toEqual({ "steady@example.org": "2026-11-24" });
    const listed = async (days: number) => {
      const found = await findStoredLists(server.database, { runs_out_within: days }, now);
      if (found === undefined || isRefusal(found)) throw new Error("No list");
      expect(found.filter.stored?.[0]?.keys).toBe(3);
      return (await listKeys(server.database, { now, filter: found.filter })).map(({ email }) => email);
    };
    expect(await listed(2)).toEqual(["used-up@example.org", "none@example.org"]);
    expect(await listed(3)).toEqual(["used-up@example.org", "none@example.org", "steady@example.org"]);
    // A new month has no use yet.
    expect(await compute("2026-12-02T12:00:00Z")).toEqual({});
    expect(
      await listKeys(server.database, {
        now,
        filter: { stored: [{ keys: 1, select: (sql: Sql) => sql`select key_id from figure_runs_out` }] },
      }),
    ).toMatchObject([{ email: "none@example.org" }]);
  });
});

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { deleteActivity, findActivity } from "../../src/activity/mod.ts";
import { listAudit } from "../../src/audit/mod.ts";
import { monthOf } from "../../src/calendar.ts";
import { DEMO_CUSTOMERS } from "../../src/cli/demo/customers.ts";
import { addDemoActivity, addDemoCustomers } from "../../src/cli/demo/history.ts";
import { daysOf, hoursOf, importedBy } from "../../src/cli/demo/use.ts";
import { openSession } from "../../src/database/mod.ts";
import { type KeyFilter, listKeys } from "../../src/keys/mod.ts";
import { monthlyLimitOf, TIERS } from "../../src/licensing/mod.ts";
import { isRefusal } from "../../src/refusal.ts";
import { countUse, readUsageDays } from "../../src/usage/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { BRAND } from "../support/issue.ts";

setDefaultTimeout(30_000);

const NOW = new Date("2026-11-22T15:43:44Z");
const DAY_MS = 86_400_000;

const allDays = (now: Date) => DEMO_CUSTOMERS.flatMap((customer) => daysOf(customer, now));
const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0);

describe("The use of the demo's customers", () => {
  test("is the same for a day, whenever the demo is added on it", () => {
    const [early, late] = [new Date("2026-11-22T08:00:00Z"), new Date("2026-11-22T23:59:59Z")];
    const isOver = ({ at }: { readonly at: Date }) => at < new Date("2026-11-22T00:00:00Z");
    expect(allDays(late).filter(isOver)).toEqual(allDays(early).filter(isOver));
    const hours = (now: Date) =>
      hoursOf(allDays(now), now).filter(({ hourMs }) => isOver({ at: new Date(hourMs) }));
    expect(hours(late)).toEqual(hours(early));
  });

  test("has ninety days, grows, and is lower at weekends", () => {
    const byDay = Map.groupBy(allDays(NOW), ({ at }) => at.getTime());
    const used = [...byDay]
      .sort(([a], [b]) => a - b)
      .map(([at, days]) => ({
        at: new Date(at),
        used: sum(days.map((day) => day.used)),
      }));
    expect(used).toHaveLength(90);
    const isWeekend = ({ at }: { readonly at: Date }) => [0, 6].includes(at.getUTCDay());
    const mean = (days: readonly { readonly used: number }[]) =>
      sum(days.map((day) => day.used)) / days.length;
    // Without today, which is not over.
    const [first, last] = [used.slice(0, 28), used.slice(-29, -1)];
    expect(mean(last)).toBeGreaterThan(1.5 * mean(first));
    expect(mean(last.filter(isWeekend))).toBeLessThan(0.8 * mean(last.filter((day) => !isWeekend(day))));
  });

  test("never exceeds a quota, and comes to it before a customer takes a higher tier", () => {
    const months = new Map<string, number>();
    const full = new Set<string>();
    for (const customer of DEMO_CUSTOMERS) {
      for (const { at, tier, used, refused } of daysOf(customer, NOW)) {
        if (refused > 0) full.add(`${customer.name} ${tier}`);
        const month = `${customer.name} ${monthOf(at.getTime()).firstDay}`;
        months.set(month, (months.get(month) ?? 0) + used);
        expect(months.get(month)).toBeLessThanOrEqual(monthlyLimitOf(tier) ?? Number.POSITIVE_INFINITY);
      }
    }
    expect(full).toEqual(new Set(["kestrel research", "aldermoor free"]));
  });
});

describe("The history of a demo", () => {
  let server: TestDatabase;
  beforeAll(async () => {
    server = await createTestDatabase();
    const session = openSession(server.address, { statementTimeoutMs: 10_000 });
    const actor = { kind: "command", name: "olga", reason: "demo" } as const;
    await addDemoCustomers(server.database, session, { brand: BRAND, actor, now: NOW });
    await addDemoActivity(server.database, NOW);
    await session.close();
  });
  afterAll(() => server.close());

  const emailsOf = async (filter: KeyFilter) => {
    const keys = await listKeys(server.database, { now: NOW, filter });
    return keys.map(({ email }) => email.replace("@demo.example", ""));
  };

  test("writes the use of each day", async () => {
    const rows = await server.database.query<{ month: string; used: number; byDay: number[] }>(
      (sql) => sql`select month::text, used, to_json(by_day) as "byDay" from usage`,
    );
    const days = allDays(NOW);
    const imported = DEMO_CUSTOMERS.map((customer) => importedBy(customer, daysOf(customer, NOW), NOW));
    expect(sum(imported)).toBeGreaterThan(0);
    expect(sum(rows.map(({ used }) => used))).toBe(sum([...days.map(({ used }) => used), ...imported]));
    const written = (at: Date) =>
      sum(
        rows
          .filter(({ month }) => month === monthOf(at.getTime()).firstDay)
          .map(({ byDay }) => byDay[at.getUTCDate() - 1] ?? 0),
      );
    for (let daysAgo = 0; daysAgo < 90; daysAgo++) {
      const at = new Date(Date.parse("2026-11-22T00:00:00Z") - daysAgo * DAY_MS);
      const ofDay = days.filter((day) => day.at.getTime() === at.getTime());
      expect({ at, used: written(at) }).toEqual({ at, used: sum(ofDay.map(({ used }) => used)) });
    }
  });

  test("has keys in every tier and state, near their quota, about to expire, and not used for long", async () => {
    for (const tier of TIERS) expect((await emailsOf({ tier })).length).toBeGreaterThan(1);
    for (const state of ["active", "suspended", "revoked", "expired"] as const)
      expect((await emailsOf({ state })).length).toBeGreaterThan(0);
    expect(await emailsOf({ nearQuotaPercent: 80 })).toEqual(["mirepoix", "cinder"]);
    // The old key of a rotation expires after its overlap.
    expect(await emailsOf({ expiringWithinDays: 30 })).toEqual(["verrane", "quillon", "ternwick"]);
    expect(await emailsOf({ unusedForDays: 90 })).toEqual(["dunmore", "sable"]);
    expect(await emailsOf({ unusedForDays: 30 })).toContain("bramble");
  });

  test("has requests and refusals of each day by hour, and one storm of refusals", async () => {
    const query = { to: NOW, by: "code", step: "day" } as const;
    const rows = await findActivity(server.database, { ...query, from: new Date("2026-08-25") });
    if (isRefusal(rows)) throw new Error(rows.sentence);
    const of = (code: string) => rows.filter(({ name }) => name === code).map(({ count }) => count);
    expect(of("OK")).toHaveLength(90);
    expect(of("INVALID_KEY")).toHaveLength(90);
    const limited = of("RATE_LIMIT_EXCEEDED").toSorted((a, b) => b - a);
    expect(limited[0]).toBeGreaterThan(10 * (limited[1] ?? 0));
    await deleteActivity(server.database, "demo");
    expect(await findActivity(server.database, { ...query, from: new Date("2026-08-25") })).toEqual([]);
  });

  test("is counted by day, also today, which has no events", async () => {
    const clock = createTestClock(NOW.toISOString());
    await countUse(server.database, { clock, isStopping: () => false });
    const counted = await readUsageDays(server.database, { from: "2026-08-25", to: "2026-11-22" });
    const used = (day: string) =>
      sum((counted?.days ?? []).filter((row) => row.day === day).map((row) => row.used));
    for (const day of ["2026-11-22", "2026-11-21", "2026-08-25"]) {
      const ofDay = allDays(NOW).filter(({ at }) => at.toISOString().startsWith(day));
      expect({ day, used: used(day) }).toEqual({ day, used: sum(ofDay.map((each) => each.used)) });
    }
  });

  test("has refusals, and changes in order whose reason is demo", async () => {
    const [refusals] = await server.database.query<{ codes: string }>(
      (sql) => sql`select string_agg(distinct code, ' ' order by code) as codes from refusals`,
    );
    expect(refusals?.codes).toBe(
      "INVALID_KEY KEY_EXPIRED LICENSE_REQUIRED QUOTA_EXCEEDED RATE_LIMIT_EXCEEDED",
    );
    const rows = await listAudit(server.database, { limit: 1_000 });
    expect(new Set(rows.map(({ reason }) => reason))).toEqual(new Set(["demo"]));
    // The task "who revoked a key last week" has an answer, whatever day of the week is today.
    const last = rows.filter(
      ({ action, at }) => action === "key.revoke" && NOW.getTime() - at.getTime() < 9 * DAY_MS,
    );
    expect(last.map(({ actor, door }) => `${actor} ${door}`)).toEqual([
      "operator:demo-ines console",
      "operator:demo-marek console",
    ]);
    const times = rows.map(({ at }) => at.getTime());
    expect(times).toEqual(times.toSorted((a, b) => b - a));
    expect(new Set(rows.map(({ action }) => action))).toEqual(
      new Set([
        "key.import",
        "key.issue",
        "key.resume",
        "key.revoke",
        "key.rotate",
        "key.suspend",
        "license.tier",
      ]),
    );
  });
});

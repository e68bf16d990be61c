import { beforeAll, describe, expect, test } from "bun:test";
import { type Actor, listAudit } from "../../src/audit/mod.ts";
import { monthOf } from "../../src/base/calendar.ts";
import { systemClock } from "../../src/base/clock.ts";
import { newUuid, parseId } from "../../src/base/ids.ts";
import { removeDemo } from "../../src/cli/demo/remove_demo.ts";
import { type Database, openSession } from "../../src/database/mod.ts";
import { listStarts } from "../../src/database/processes/mod.ts";
import {
  findKey,
  generateApiKey,
  importKeys,
  type KeyFilter,
  listKeys,
  renderObstacles,
  resumeKey,
  revokeKey,
  rotateKey,
  suspendKey,
} from "../../src/licensing/keys/mod.ts";
import {
  changeLicense,
  createLicenseChanges,
  findAccount,
  monthlyLimitOf,
  TIERS,
  type Tier,
} from "../../src/licensing/mod.ts";
import { findActivity } from "../../src/usage/activity/mod.ts";
import {
  computeFigures,
  findStoredLists,
  type KeyConditions,
  MOST_DAYS_LEFT,
} from "../../src/usage/figures/mod.ts";
import {
  addLatency,
  completeLatencyQuery,
  findLatency,
  STEP_MS,
  slowerFactorOf,
} from "../../src/usage/latency/mod.ts";
import { countUse, importedUsageCte, readUsageDays } from "../../src/usage/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { createTestDatabase } from "../support/database.ts";
import { addDemo } from "../support/demo.ts";
import { ACTOR, BRAND, orThrow } from "../support/issue.ts";
import { openSecrets } from "../support/secrets.ts";
import { useTestDatabase } from "../support/use.ts";

const NOW = new Date("2026-11-22T15:43:44Z");
const DAY_MS = 86_400_000;
const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0);

interface DayOfUse {
  readonly name: string;
  readonly day: string;
  readonly used: number;
}

/** Returns the use of each customer on each day, without days that have none. */
async function daysOf(database: Database): Promise<DayOfUse[]> {
  return await database.query<DayOfUse>(
    (sql) => sql`
      select split_part(email, '@', 1) as name, (month + nth::integer - 1)::text as day, units as used
        from usage
             join licenses l on l.id = license_id
             join accounts a on a.id = account_id
             cross join unnest(by_day) with ordinality as days (units, nth)
       where units > 0
       order by 1, 2`,
  );
}

/** Returns the activity of the days before today. */
function hoursOf(database: Database) {
  return database.query(
    (sql) => sql`select * from activity_hours where hour < '2026-11-22' order by 1, 2, 3, 4`,
  );
}

const server = useTestDatabase();
let days: DayOfUse[];
let hours: Awaited<ReturnType<typeof hoursOf>>;
beforeAll(async () => {
  await addDemo(server, NOW);
  days = await daysOf(server.database);
  hours = await hoursOf(server.database);
});

describe("The use of the demo's customers", () => {
  test("is the same for a day, whenever the demo is added on it", async () => {
    await using early = await createTestDatabase();
    await addDemo(early, new Date("2026-11-22T08:00:00Z"));
    const isOver = ({ day }: DayOfUse) => day < "2026-11-22";
    expect((await daysOf(early.database)).filter(isOver)).toEqual(days.filter(isOver));
    expect(hours.length).toBeGreaterThan(10_000);
    expect(await hoursOf(early.database)).toEqual(hours);
  });

  test("has ninety days, grows, and is lower at weekends", () => {
    const used = [...Map.groupBy(days, ({ day }) => day)]
      .map(([day, ofDay]) => ({ at: new Date(day), used: sum(ofDay.map((each) => each.used)) }))
      .sort((a, b) => a.at.getTime() - b.at.getTime());
    expect(used).toHaveLength(90);
    const isWeekend = ({ at }: { readonly at: Date }) => [0, 6].includes(at.getUTCDay());
    const mean = (some: readonly { readonly used: number }[]) =>
      sum(some.map((day) => day.used)) / some.length;
    // Without today, which is not over.
    const [first, last] = [used.slice(0, 28), used.slice(-29, -1)];
    expect(mean(last)).toBeGreaterThan(1.5 * mean(first));
    expect(mean(last.filter(isWeekend))).toBeLessThan(0.8 * mean(last.filter((day) => !isWeekend(day))));
  });

  test("never exceeds a quota, also not that of the tier before a change, and ends with today's last full hour", async () => {
    const tiers = new Map(
      (await listKeys(server.database, { now: NOW })).map(({ email, tier }) => [email.split("@")[0], tier]),
    );
    const promoted = new Map([
      ["aldermoor", { tier: "free" as Tier, on: "2026-09-22" }],
      ["kestrel", { tier: "research" as Tier, on: "2026-09-28" }],
    ]);
    const months = Map.groupBy(days, ({ name, day }) => {
      const before = promoted.get(name);
      const tier = before !== undefined && day < before.on ? before.tier : tiers.get(name);
      return `${tier} ${name} ${day.slice(0, 7)}`;
    });
    for (const [month, ofMonth] of months) {
      const limit = monthlyLimitOf(month.split(" ")[0] as Tier) ?? Number.POSITIVE_INFINITY;
      expect({ month, isWithin: sum(ofMonth.map(({ used }) => used)) <= limit }).toEqual({
        month,
        isWithin: true,
      });
    }
    expect([...months.keys()].filter((month) => /aldermoor|kestrel/.test(month))).toContain(
      "free aldermoor 2026-09",
    );
    // 15 of 24 hours are over, and they have 75 percent of a day's use.
    const ofFjordhall = new Map(
      days.filter(({ name }) => name === "fjordhall").map(({ day, used }) => [day, used]),
    );
    const part = (ofFjordhall.get("2026-11-22") ?? 0) / (ofFjordhall.get("2026-11-15") ?? 0);
    expect(part).toBeGreaterThan(0.75 * (0.82 / 1.18));
    expect(part).toBeLessThan(0.75 * 1.05 * (1.18 / 0.82));
  });
});

describe("The history of a demo", () => {
  test("has as many refusals in the five minutes of each hour as in the activity of that hour", async () => {
    const found = orThrow(await findLatency(server.database, completeLatencyQuery({}, NOW)));
    const noted = await server.database.query<{ endpoint: string; hour: Date; count: number }>(
      (sql) => sql`
        select endpoint, hour, sum(count)::bigint as count
          from activity_hours where code <> 'OK' group by endpoint, hour`,
    );
    const refusedIn = (endpoint: string, hour: Date) =>
      noted.find((row) => row.endpoint === endpoint && row.hour.getTime() === hour.getTime())?.count ?? 0;
    for (const { endpoint, hours, steps } of found) {
      // The first hour has only a part of its five minutes.
      const [, ...whole] = hours;
      const of = whole.map(({ at, refused }) => ({ at, refused }));
      expect(of).toEqual(whole.map(({ at }) => ({ at, refused: refusedIn(endpoint, at) })));
      expect(steps.filter(({ refused, requests }) => refused > requests)).toEqual([]);
    }
    expect(refusedIn("analytics", new Date("2026-11-22T15:00:00Z"))).toBe(173);
    expect(refusedIn("analytics", new Date("2026-11-22T14:00:00Z"))).toBeGreaterThan(1);
  });

  const emailsOf = async (filter: KeyFilter) => {
    const keys = await listKeys(server.database, { now: NOW, filter });
    return keys.map(({ email }) => email.replace("@demo.example", ""));
  };

  test("has the use of its days, and of some customers a part without a day", async () => {
    const rows = await server.database.query<{ email: string; used: number; ofDays: number }>(
      (sql) => sql`
        select email, sum(used)::bigint as used, sum((select sum(units) from unnest(by_day) as units))::bigint as "ofDays"
          from usage join licenses l on l.id = license_id join accounts a on a.id = account_id
         where month = '2026-11-01' group by email`,
    );
    const parts = rows.filter(({ used, ofDays }) => used !== ofDays);
    expect(parts.map(({ email, used }) => `${email} ${used}`).sort()).toEqual([
      "cinder@demo.example 8700",
      "mirepoix@demo.example 43500",
      "pellar@demo.example 497500",
      "quota-used-up@demo.example 10000",
    ]);
    expect(parts.every(({ used, ofDays }) => ofDays < used)).toBe(true);
    const tried = await findAccount(server.database, { email: "quota-used-up@demo.example" });
    const [imported] = await listAudit(server.database, { accountUuid: tried?.uuid ?? "" });
    expect(imported).toMatchObject({ action: "key.import", after: { used: 10_000 } });
  });

  test("has keys in every tier and state, near their quota, about to expire, and not used for long", async () => {
    for (const tier of TIERS) expect((await emailsOf({ tier })).length).toBeGreaterThan(1);
    for (const state of ["active", "suspended", "revoked", "expired"] as const)
      expect((await emailsOf({ state })).length).toBeGreaterThan(0);
    await computeFigures(server.database, { clock: createTestClock(NOW.toISOString()) });
    const byFigures = async (conditions: KeyConditions) =>
      emailsOf(orThrow(await findStoredLists(server.database, conditions, NOW))?.filter ?? {});
    expect(await byFigures({ near_quota: 80 })).toEqual(["mirepoix", "cinder", "pellar", "quota-used-up"]);
    // A key that ends with the overlap of its rotation is not among them, because its license goes on.
    expect(await emailsOf({ expiringWithinDays: 30 })).toEqual(["verrane", "ternwick"]);
    expect(await byFigures({ unused_for: 90 })).toEqual(["dunmore", "sable"]);
    expect(await byFigures({ unused_for: 30 })).toContain("bramble");
  });

  test("has a key for each answer of the stored figures, and one that sent too many requests in the last hour", async () => {
    await using now = await createTestDatabase();
    const clock = systemClock;
    await addDemo(now, clock.now());
    await computeFigures(now.database, { clock });
    const listed = async (conditions: KeyConditions) => {
      const { filter } = orThrow(await findStoredLists(now.database, conditions, clock.now())) ?? {};
      const keys = await listKeys(now.database, { now: clock.now(), filter: filter ?? {} });
      return keys.map(
        (key) => `${key.email.replace("@demo.example", "")} ${key.placesTaken} ${renderObstacles(key)}`,
      );
    };
    expect(await listed({ all_places_taken: "true" })).toEqual(["kestrel 3 "]);
    const refused = await listed({ refused_now: "true" });
    for (const row of [
      "ternwick null too many requests: 173 of 240 in the last hour",
      "quota-used-up null quota used up",
      ...["marrow null expired", "lumen null rotated", "thornby null suspended"],
    ])
      expect(refused).toContain(row);
    expect(refused.join()).not.toContain("revoked");
    // On the last day of a month the quota lasts until it resets.
    const { endsAtMs } = monthOf(clock.nowMs());
    if (endsAtMs - clock.nowMs() > DAY_MS)
      expect(await listed({ runs_out_within: MOST_DAYS_LEFT })).toContain("pellar null ");
  });

  test("has requests and refusals of each day by hour, and one storm of refusals", async () => {
    const query = { to: NOW, by: "code", step: "day" } as const;
    const rows = orThrow(await findActivity(server.database, { ...query, from: new Date("2026-08-25") }));
    const of = (code: string) => rows.filter(({ name }) => name === code).map(({ count }) => count);
    expect(of("OK")).toHaveLength(90);
    expect(of("INVALID_KEY")).toHaveLength(90);
    const limited = of("RATE_LIMIT_EXCEEDED").toSorted((a, b) => b - a);
    // The second is today, with a client that does not wait.
    expect(limited[0]).toBeGreaterThan(3 * (limited[1] ?? 0));
    expect(limited[1]).toBeGreaterThan(173);
    expect(limited[1]).toBeGreaterThan(2 * (limited[2] ?? 0));
  });

  test("has a day of latencies, in which events became slow an hour ago, when a process was started", async () => {
    const query = completeLatencyQuery({}, NOW);
    const found = orThrow(await findLatency(server.database, query));
    expect(found.map(({ endpoint }) => endpoint)).toEqual(["analytics", "validate", "refresh"]);
    expect(found.map((endpoint) => slowerFactorOf(endpoint) > 3)).toEqual([true, false, false]);
    // The five minutes that are not over have only the client that does not wait.
    expect(found[0]?.steps.at(-1)).toMatchObject({
      ...{ at: new Date("2026-11-22T15:40:00Z"), requests: 240, refused: 173 },
    });
    expect(found[0]?.steps).toHaveLength(288);
    expect((await listStarts(server.database, query)).map(({ at }) => at)).toEqual([
      new Date("2026-11-22T14:40:00Z"),
    ]);
  });

  test("is counted by day, also today, which has no events", async () => {
    const clock = createTestClock(NOW.toISOString());
    await countUse(server.database, { clock, isStopping: () => false });
    const counted = await readUsageDays(server.database, { from: "2026-08-25", to: "2026-11-22" });
    const used = (day: string) =>
      sum((counted?.days ?? []).filter((row) => row.day === day).map((row) => row.used));
    for (const day of ["2026-11-22", "2026-11-21", "2026-08-25"]) {
      const ofDay = days.filter((each) => each.day === day).map((each) => each.used);
      expect(ofDay.length).toBeGreaterThanOrEqual(10);
      expect({ day, used: used(day) }).toEqual({ day, used: sum(ofDay) });
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
      "command:olga command",
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

/** An account's rows of the audit log and its keys. Identifiers are replaced by their order, and hints left out. */
async function shownOf(database: Database, name: string): Promise<unknown> {
  const account = await findAccount(database, { email: `${name}@demo.example` });
  const rows = await listAudit(database, { accountUuid: account?.uuid ?? "" });
  const keys = await listKeys(database, { now: NOW, filter: { accountUuid: account?.uuid ?? "" } });
  const ids = new Map<string, string>();
  const shown = JSON.stringify([
    rows.map(({ id: _, position: __, uniqueId: ___, ...row }) => row),
    keys.map(({ hint: _, used: __, lastUsedAt: ___, ...key }) => key),
  ]).replace(/(key|lic|usr)_[0-9a-f]{32}/g, (id, kind) => {
    if (!ids.has(id)) ids.set(id, `${kind} ${ids.size}`);
    return ids.get(id) ?? "";
  });
  return JSON.parse(shown);
}

test("removeDemo() removes the activity and latencies of a demo and their start, and leaves latencies of others", async () => {
  await using other = await createTestDatabase();
  const query = completeLatencyQuery({}, NOW);
  const activity = { from: new Date("2026-08-25"), to: NOW, by: "code", step: "day" } as const;
  await addDemo(other, NOW);
  const atMs = NOW.getTime() - DAY_MS / 24;
  const count = { endpoint: "models", refused: 0, failed: 0, buckets: [1] };
  await addLatency(other.database, [{ atMs: atMs - (atMs % STEP_MS), count }], { processUuid: newUuid() });
  expect(orThrow(await findActivity(other.database, activity)).length).toBeGreaterThan(90);
  await removeDemo(other.database, { secrets: openSecrets(), actor: ACTOR, now: NOW });
  const left = orThrow(await findLatency(other.database, query));
  expect(left.map(({ endpoint }) => endpoint)).toEqual(["models"]);
  expect(await listStarts(other.database, query)).toEqual([]);
  expect(await findActivity(other.database, activity)).toEqual([]);
});

test("The history of a demo is what the rooms would have written", async () => {
  await using other = await createTestDatabase();
  const { database } = other;
  const morning = (daysAgo: number) => new Date(Date.parse("2026-11-22T09:00:00Z") - daysAgo * DAY_MS);
  const by = (daysAgo: number, kind: Actor["kind"], name: string) => ({
    actor: { kind, name, reason: "demo" },
    now: morning(daysAgo),
  });
  const uuids = new Map<string, string>();
  const session = openSession(other.address, { statementTimeoutMs: 10_000 });
  for (const [name, organization, tier, since] of [
    ["kestrel", "Kestrel Prosthetics", "research", 92],
    ["lumen", "Lumen Speller Project", "research", 92],
    ["hollin", "Hollin Sleep Laboratory", "research", 92],
    ["bramble", "Bramble Studio", "free", 74],
  ] as const) {
    const { hash, hint } = generateApiKey(BRAND, "test");
    const license = { tier, expires_at: morning(-273), used: 0 };
    const key = {
      hash,
      hint,
      mode: "test",
      email: `${name}@demo.example`,
      organization,
      ...license,
      ...(name === "kestrel" && { max_machines: 3, seat_minutes: 1_440 }),
    } as const;
    const month = monthOf(morning(since).getTime());
    await importKeys(session, [{ key, line: 1 }], {
      ...by(since, "command", "olga"),
      usageCte: (sql) => importedUsageCte(sql, month),
    });
    uuids.set(name, parseId("key", (await findKey(database, { hash }, { now: NOW }))?.id ?? "") ?? "");
  }
  await session.close();
  const of = (name: string) => uuids.get(name) ?? "";
  const changes = createLicenseChanges(database);
  const change = { change: { tier: "commercial" as const }, ...by(55, "command", "olga") };
  await changeLicense(changes, { keyUuid: of("kestrel") }, change);
  await suspendKey(changes, of("hollin"), by(33, "token", "demo-shop"));
  await resumeKey(changes, of("hollin"), by(31, "token", "demo-shop"));
  const old = { uuid: of("lumen"), mode: "test", overlapMs: 7 * DAY_MS } as const;
  await rotateKey(changes, old, { brand: BRAND, ...by(14, "operator", "demo-marek") });
  await revokeKey(changes, { uuid: of("bramble") }, by(8, "operator", "demo-marek"));

  for (const name of uuids.keys())
    expect({ name, is: await shownOf(server.database, name) }).toEqual({
      name,
      is: await shownOf(database, name),
    });
});

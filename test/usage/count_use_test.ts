/** The use per day of all licenses: the additions each minute, the exact days, and that they equal the export. */
import { describe, expect, test } from "bun:test";
import { hash } from "node:crypto";
import { newUuid } from "../../src/base/ids.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { changeLicense, createLicenseChanges, TIERS, type Tier } from "../../src/licensing/mod.ts";
import { commitEvents, countUse, readUsageDays, restartCount, type UsageEvent } from "../../src/usage/mod.ts";
import { createTestDatabase } from "../support/database.ts";
import { MUCH_ROOM, usageEvent } from "../support/events.ts";
import { ACTOR, issue } from "../support/issue.ts";
import { createRandom } from "../support/random.ts";
import { useForEach } from "../support/use.ts";
import { compareDays, compareWithExport, readDays, sumOf } from "./figures/compare_days.ts";
import { makeRandomCustomers } from "./figures/random_customers.ts";

const server = useForEach(createTestDatabase);
let nowMs: number;
const clock = { now: () => new Date(nowMs), nowMs: () => nowMs, monotonicMs: () => nowMs };
const setClock = (at: string) => {
  nowMs = Date.parse(at);
};

const count = (database = server.database) => countUse(database, { clock, isStopping: () => false });

const readAll = () => readDays(server.database);

async function query<Row extends object>(text: string): Promise<Row[]> {
  return [...(await server.database.query<Row>((sql) => sql.unsafe(text)))];
}

async function commit(license: { licenseUuid: string }, events: Partial<UsageEvent>[]): Promise<void> {
  const batch = events.map((fields) => usageEvent({ ...license, receivedAtMs: nowMs, ...fields }));
  await commitEvents(server.database, batch, {
    processUuid: newUuid(),
    textBounds: MUCH_ROOM,
    deadlineMs: 10_000,
  });
}

describe("countUse()", () => {
  test("fills the months before, under the tiers of now, and stores no day that is not over", async () => {
    setClock("2026-11-20T12:00:00Z");
    await makeRandomCustomers(server.database, { licenses: 700, now: clock.now() });
    expect(await readUsageDays(server.database, { from: "2026-01-01", to: "2026-12-31" })).toBeUndefined();
    await count();
    const { days, imported, exactUntil, filledFrom } = await readAll();
    expect({ exactUntil, filledFrom }).toEqual({ exactUntil: "2026-11-20", filledFrom: null });
    expect(days).toEqual(
      await query(
        `select to_char(day, 'YYYY-MM-DD') as day, tier, mode, sum(units)::bigint as used
           from (select month + (place - 1)::integer as day, l.tier, units,
                        (select string_agg(distinct mode, '+' order by mode) from keys where license_id = l.id) as mode
                   from usage join licenses l on l.id = license_id, unnest(by_day) with ordinality as u (units, place)
                ) as each
          where day < '2026-11-20' and units > 0
          group by 1, 2, 3 order by 1, tier collate "C", mode collate "C"`,
      ),
    );
    expect(new Set(imported.map(({ month }) => month))).toEqual(new Set(["2026-09", "2026-10", "2026-11"]));
    expect(await compareWithExport(server.database, nowMs)).toBe(2);
    // A part of the period.
    const part = await readUsageDays(server.database, { from: "2026-10-31", to: "2026-11-01" });
    expect(part?.days).toEqual(days.filter(({ day }) => day === "2026-10-31" || day === "2026-11-01"));
    expect(part?.imported).toEqual(imported.filter(({ month }) => month !== "2026-09"));
    await restartCount(server.database);
    await count();
    expect((await readAll()).days).toEqual(days);
  });

  test("counts the licenses of every statement, of which each counts 5,000", async () => {
    setClock("2026-11-20T12:00:00Z");
    await issue(server.database);
    await query(`
      with license as (
        insert into licenses (id, account_id, tier, expires_at, created_at)
        select gen_random_uuid(), accounts.id, 'free', 'infinity', now() from accounts, generate_series(1, 10001)
        returning id
      )
      insert into usage (license_id, month, used, by_day) select id, '2026-11-01', 1, '{0,1}' from license`);
    await count();
    expect(await readAll()).toMatchObject({ days: [{ day: "2026-11-02", used: 10_001 }], imported: [] });
  });

  test("adds each minute the events that were received before, and no event twice", async () => {
    setClock("2026-11-20T12:00:00Z");
    const free = await issue(server.database, { tier: "free", monthlyLimit: 5 });
    const test = await issue(server.database, { tier: "research", mode: "test" });
    await commit(free, [{}, {}, { type: "error" }]);
    await count();
    expect((await readAll()).days).toEqual([]);
    nowMs += 60_000;
    await commit(test, [{}]);
    await count();
    const day = "2026-11-20";
    const first = { day, tier: "free", mode: "live", used: 2 } as const;
    expect(await readAll()).toMatchObject({ asOf: new Date("2026-11-20T12:00:45Z"), days: [first] });
    // The quota refuses five of these.
    await commit(free, Array(8).fill({}));
    nowMs += 40_000;
    await count();
    expect((await readAll()).days).toEqual([first]);
    nowMs += 20_000;
    await Promise.all([count(), count(), count()]);
    const both = [
      { day, tier: "free", mode: "live", used: 5 },
      { day, tier: "research", mode: "test", used: 1 },
    ];
    expect((await readAll()).days).toEqual(both as never);
    await commit(test, [{}]);
    // A pause that takes several statements.
    nowMs += 3 * 3_600_000;
    await count();
    expect((await readAll()).days).toEqual([both[0], { ...both[1], used: 2 }] as never);
  });

  test("adds an event of the very moment at which one count ends and the next begins once", async () => {
    setClock("2026-11-20T12:00:00Z");
    const license = await issue(server.database, { tier: "free" });
    await count();
    nowMs += 60_000;
    // The count goes until 15 s ago.
    await commit(
      license,
      [-1, 0, 1].map((ms) => ({ receivedAtMs: nowMs - 15_000 + ms })),
    );
    await count();
    expect(await readAll()).toMatchObject({ asOf: new Date("2026-11-20T12:00:45Z"), days: [{ used: 1 }] });
    nowMs += 60_000;
    await count();
    expect((await readAll()).days).toMatchObject([{ used: 3 }]);
  });

  test("makes a day exact when it is over, under the tier that a license had then", async () => {
    setClock("2026-11-30T23:00:00Z");
    const { licenseUuid } = await issue(server.database, { tier: "free" });
    await count();
    await commit({ licenseUuid }, [{}, {}]);
    nowMs = Date.parse("2026-11-30T23:59:50Z");
    await count();
    const change = async (tier: Tier) => {
      const options = { change: { tier }, actor: ACTOR, now: clock.now() };
      const changed = await changeLicense(createLicenseChanges(server.database), { licenseUuid }, options);
      if (isRefusal(changed)) throw new Error(changed.sentence);
    };
    await change("research");
    await commit({ licenseUuid }, [{}]);
    nowMs = Date.parse("2026-12-01T00:00:20Z");
    await change("enterprise");
    nowMs = Date.parse("2026-12-01T00:00:25Z");
    await change("commercial");
    await commit({ licenseUuid }, [{}]);
    await count();
    expect((await readAll()).exactUntil).toBe("2026-11-30");
    nowMs = Date.parse("2026-12-01T00:01:20Z");
    await count();
    const november = { day: "2026-11-30", tier: "research", mode: "live", used: 3 } as const;
    expect(await readAll()).toMatchObject({
      exactUntil: "2026-12-01",
      days: [november, { day: "2026-12-01", tier: "commercial", used: 1 }],
    });

    // An event of November whose commit took long, and an import: both are found when the next day is over.
    await commit({ licenseUuid }, [{ receivedAtMs: Date.parse("2026-11-30T23:59:59Z") }]);
    await query(`update usage set used = used + 40 where month = '2026-11-01'`);
    nowMs = Date.parse("2026-12-02T00:01:00Z");
    await count();
    expect((await readAll()).days[0]).toEqual({ ...november, tier: "commercial", used: 4 });
    expect((await readAll()).imported).toEqual([
      { month: "2026-11", tier: "commercial", mode: "live", used: 40 },
    ]);
    expect(await compareWithExport(server.database, nowMs)).toBe(1);
  });

  test("equals the events and the export during and after ten days of random use", async () => {
    let seed = 17;
    const random = (below: number) => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed % below;
    };
    setClock("2026-11-24T05:00:00Z");
    const licenses: string[] = [];
    const begin = nowMs;
    let compared = 0;
    while (nowMs < begin + 10 * 86_400_000) {
      if (licenses.length < 12) {
        const tier = TIERS[random(TIERS.length)] ?? "free";
        const mode = random(4) === 0 ? "test" : "live";
        const key = await issue(server.database, {
          tier,
          mode,
          now: clock.now(),
          monthlyLimit: 20 + random(200),
        });
        licenses.push(key.licenseUuid);
      }
      const licenseUuid = licenses[random(licenses.length)] ?? "";
      await commit(
        { licenseUuid },
        Array.from({ length: random(40) }, () => ({ receivedAtMs: nowMs - (nowMs % 1_000) })),
      );
      if (random(3) === 0) {
        const change = { tier: TIERS[random(TIERS.length)] ?? "free" };
        await changeLicense(
          createLicenseChanges(server.database),
          { licenseUuid },
          { change, actor: ACTOR, now: clock.now() },
        );
      }
      nowMs += 20_000 + random(12 * 3_600_000);
      if (random(4) === 0) continue;
      await count();
      await compareDays(server.database);
      compared++;
    }
    expect(compared).toBeGreaterThan(20);
    expect(await compareWithExport(server.database, nowMs)).toBe(1);
  });

  describe("of late events", () => {
    /** Every event with a time of its own has a claim. */
    const claimOf = (occurredAtMs: number) => ({
      ...{
        hash: hash("sha256", newUuid(), "hex"),
        digest: "0".repeat(64),
        occurredAtMs,
        eventHash: "0".repeat(64),
      },
    });
    const lateAt = (occurredAtMs: number) => ({ occurredAtMs, claim: claimOf(occurredAtMs) });
    const late = (at: string) => lateAt(Date.parse(at));
    const usedByDay = async () => {
      const days = Map.groupBy((await readAll()).days, ({ day }) => day);
      return Object.fromEntries([...days].map(([day, rows]) => [day, sumOf(rows)]));
    };

    test("adds each to the day on which it happened, of this month and of the last", async () => {
      setClock("2026-12-03T12:00:00Z");
      const license = await issue(server.database, { tier: "free" });
      await count();
      await commit(license, [late("2026-12-01T10:00:00Z"), late("2026-12-01T23:59:59.999Z")]);
      await commit(license, [late("2026-12-02T00:00:00Z")]);
      await commit(license, [
        late("2026-11-30T23:59:59.999Z"),
        { ...late("2026-11-30T10:00:00Z"), type: "error" },
      ]);
      await commit(license, [{}]);
      nowMs += 90_000;
      await count();
      const days = { "2026-11-30": 1, "2026-12-01": 2, "2026-12-02": 1, "2026-12-03": 1 };
      expect(await usedByDay()).toEqual(days);
      setClock("2026-12-04T00:01:00Z");
      await count();
      expect(await usedByDay()).toEqual(days);
      expect(await compareWithExport(server.database, nowMs)).toBe(1);
    });

    test("adds those that come while a day is closed once, and not again from the events", async () => {
      setClock("2026-12-01T23:50:00Z");
      const license = await issue(server.database, { tier: "free" });
      await count();
      await commit(license, [{}]);
      nowMs += 120_000;
      await count();
      // Received after what was added last, and before the day is closed.
      setClock("2026-12-02T00:00:31Z");
      await commit(license, [late("2026-12-01T10:00:00Z"), late("2026-12-01T20:00:00Z")]);
      await commit(license, [late("2026-11-30T10:00:00Z")]);
      nowMs += 1_000;
      await count();
      expect((await readAll()).exactUntil).toBe("2026-12-02");
      for (let minute = 0; minute < 3; minute++) {
        nowMs += 60_000;
        await count();
        expect(await usedByDay()).toEqual({ "2026-11-30": 1, "2026-12-01": 3 });
      }
    });

    test("adds those that come while the months before are counted once", async () => {
      setClock("2026-12-02T12:00:00Z");
      const license = await issue(server.database, { tier: "free" });
      await commit(license, [late("2026-12-01T10:00:00Z")]);
      await commit(license, [late("2026-11-30T10:00:00Z")]);
      for (let minute = 0; minute < 3; minute++) {
        nowMs += 1_000;
        await count();
        nowMs += 60_000;
        await count();
        expect(await usedByDay()).toEqual({ "2026-11-30": 1, "2026-12-01": 1 });
      }
    });

    test("counts those of the last month until its eighth day, also after a pause of days", async () => {
      setClock("2026-11-29T12:00:00Z");
      const license = await issue(server.database, { tier: "free" });
      await count();
      await commit(license, [{}]);
      // No process counts meanwhile.
      setClock("2026-12-07T23:00:00Z");
      await commit(license, [late("2026-11-30T23:30:00Z"), late("2026-11-30T23:40:00Z")]);
      await commit(license, [late("2026-12-03T10:00:00Z")]);
      setClock("2026-12-08T00:01:00Z");
      await count();
      const days = { "2026-11-29": 1, "2026-11-30": 2, "2026-12-03": 1 };
      expect(await usedByDay()).toEqual(days);
      // The clock of another process was behind.
      await commit(license, [
        { ...late("2026-11-30T23:59:00Z"), receivedAtMs: Date.parse("2026-12-07T23:59:00Z") },
      ]);
      setClock("2026-12-09T00:01:00Z");
      await count();
      expect(await usedByDay()).toEqual({ ...days, "2026-11-30": 3 });
      expect(await compareWithExport(server.database, nowMs)).toBe(1);
    });

    test("equals the events and the export after three weeks of random events, many of them late", async () => {
      const random = createRandom(Number(process.env.HOSTILE_SEED ?? Math.floor(Math.random() * 2 ** 31)));
      setClock("2026-11-20T05:00:00Z");
      const began = nowMs;
      const licenses = await Promise.all(
        [...TIERS, ...TIERS].map((tier) =>
          issue(server.database, { tier, monthlyLimit: random.between(50, 400) }),
        ),
      );
      let compared = 0;
      while (nowMs < began + 21 * 86_400_000) {
        for (const license of random.shuffle(licenses).slice(0, 3)) {
          const ageMs = random.pick([0, 20_000, 86_400_000, 7 * 86_400_000]);
          const occurredAtMs = nowMs - random.between(0, ageMs);
          await commit(
            license,
            Array.from({ length: random.between(1, 30) }, () => (ageMs === 0 ? {} : lateAt(occurredAtMs))),
          );
        }
        // Often just after midnight, when the days before are closed.
        const toMidnightMs = 86_400_000 - (nowMs % 86_400_000);
        nowMs += random.pick([15_000, 61_000, 3 * 3_600_000, toMidnightMs + random.between(0, 40_000)]);
        if (random.between(1, 4) === 1) continue;
        await count();
        await compareDays(server.database);
        compared++;
      }
      expect(compared).toBeGreaterThan(20);
      expect(await compareWithExport(server.database, nowMs)).toBe(1);
    });
  });

  test("begins anew with today after a clock that was wrong", async () => {
    setClock("2027-06-01T12:00:00Z");
    const license = await issue(server.database, { tier: "free" });
    await count();
    await commit(license, [{}, {}]);
    nowMs += 60_000;
    await count();
    expect(sumOf((await readAll()).days)).toBe(2);
    setClock("2026-11-20T12:00:00Z");
    await commit(license, [{}]);
    nowMs += 300_000;
    await count();
    expect((await readAll()).days).toEqual([{ day: "2026-11-20", tier: "free", mode: "live", used: 1 }]);
  });

  test("leaves the count to another process, until that one is taken for dead", async () => {
    setClock("2026-11-20T12:00:00Z");
    await count();
    await query(`update usage_days_progress set busy_until = '2026-11-20T12:02:30Z'`);
    nowMs += 120_000;
    await count();
    expect((await readAll()).asOf).toEqual(new Date("2026-11-20T11:59:45Z"));
    nowMs += 60_000;
    await count();
    expect((await readAll()).asOf).toEqual(new Date("2026-11-20T12:02:45Z"));
  });

  test("adds no event twice if a process stands still between two statements, and another one counts meanwhile", async () => {
    setClock("2026-11-20T12:00:00Z");
    const license = await issue(server.database, { tier: "free" });
    await count();
    for (let statement = 1; statement <= 6; statement++) {
      await commit(license, [{}, {}]);
      nowMs += 100_000;
      let sent = 0;
      const { query: send } = server.database;
      const still: typeof server.database = {
        ...server.database,
        async query(build, options) {
          if (++sent === statement) {
            await query("update usage_days_progress set busy_until = null");
            await count();
          }
          return await send(build, options);
        },
      };
      await count(still);
      expect(sent).toBeGreaterThanOrEqual(statement);
      expect(sumOf((await readAll()).days)).toBe(2 * statement);
    }
  });

  test("counts every event once after a process was killed before, during or after any statement", async () => {
    setClock("2026-11-28T23:00:00Z");
    const license = await issue(server.database, { tier: "free" });
    await count();
    const { query: send } = server.database;
    let isComplete = false;
    for (let statement = 1; !isComplete; statement++) {
      for (const isSent of [false, true]) {
        await commit(license, [{}, {}, {}]);
        // Some counts close a day, and one closes a month.
        nowMs += 4 * 3_600_000;
        let sent = 0;
        const killed: typeof server.database = {
          ...server.database,
          async query(build, options) {
            if (++sent < statement) return await send(build, options);
            if (sent === statement && isSent) await send(build, options);
            throw new Error("The process was killed");
          },
        };
        isComplete = await count(killed).then(
          () => true,
          () => false,
        );
        nowMs += 240_000;
        await count();
        await compareDays(server.database);
      }
    }
    expect(await compareWithExport(server.database, nowMs)).toBe(1);
  });

  test("stops between statements, and continues the next time", async () => {
    setClock("2026-11-20T12:00:00Z");
    await makeRandomCustomers(server.database, { licenses: 50, now: clock.now() });
    const reached = new Set<string | null>();
    for (let most = 0; most < 30 && !reached.has(null); most++) {
      let asked = 0;
      await restartCount(server.database);
      await countUse(server.database, { clock, isStopping: () => ++asked > most });
      reached.add((await readAll()).filledFrom);
    }
    expect([...reached].slice(0, 4)).toEqual(["2026-12-01", "2026-11-01", "2026-10-01", "2026-09-01"]);
    for (let most = 1; most < 20; most += 3) {
      let asked = 0;
      await countUse(server.database, { clock, isStopping: () => ++asked > most });
    }
    await count();
    expect((await readAll()).filledFrom).toBeNull();
    expect(await compareWithExport(server.database, nowMs)).toBe(2);
  });
});

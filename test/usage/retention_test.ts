/** Upkeep drops whole months of events that are older than the setting allows. The counts of usage stay. */
import { beforeEach, describe, expect, test } from "bun:test";
import { monthOf, toMonth } from "../../src/base/calendar.ts";
import { createLog } from "../../src/base/log.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { issueKey } from "../../src/licensing/keys/mod.ts";
import { createBrand } from "../../src/licensing/mod.ts";
import { attachPartition } from "../../src/usage/mod.ts";
import { createTestClock, type TestClock } from "../support/clock.ts";
import { createTestDatabase } from "../support/database.ts";
import { inTransaction } from "../support/in_transaction.ts";
import { shortest } from "../support/shortest.ts";
import { createTestUpkeep, HOURLY_TASKS } from "../support/upkeep.ts";
import { useForEach } from "../support/use.ts";

const NOW = "2026-11-20T12:00:00Z";

const place = useForEach(createTestDatabase);
const opened = useForEach(async () => {
  const upkeeps: ReturnType<typeof createTestUpkeep>[] = [];
  const close = async () => {
    for (const upkeep of upkeeps) await upkeep.stop();
  };
  return { upkeeps, close };
});
let clock: TestClock;
let lines: string[];

beforeEach(async () => {
  clock = createTestClock(NOW);
  lines = [];
  await setDatabaseClock(NOW);
});

function upkeepThatKeeps(keptMonths: number) {
  const log = createLog({ format: "text", clock, write: (line) => void lines.push(line) });
  const upkeep = createTestUpkeep({ address: place.address, clock, log, keptMonths }, HOURLY_TASKS);
  opened.upkeeps.push(upkeep);
  return upkeep;
}

/** Moves the clock of the database, for connections that are opened after this. */
async function setDatabaseClock(at: string): Promise<void> {
  const { database } = place;
  const aheadMs = Date.parse(at) - Date.now();
  await database.query((sql) => sql`create schema if not exists moved`);
  await database.query((sql) =>
    sql.unsafe(`
      create or replace function moved.clock_timestamp() returns timestamptz
        return pg_catalog.clock_timestamp() + interval '${aheadMs} ms'`),
  );
  await database.query((sql) =>
    sql.unsafe(`
      do $$
      begin
        execute format('alter database %I set search_path = public, moved, pg_catalog', current_database());
      end
      $$`),
  );
}

async function attachMonths(...months: string[]): Promise<void> {
  for (const month of months) await attachPartition(place.database, monthOf(Date.parse(`${month}-01`)));
}

async function insertEvents(receivedAt: string, count = 1): Promise<void> {
  await place.database.query(
    (sql) => sql`
      insert into events (id, received_at, key_id, license_id, event_type, success)
      select gen_random_uuid(), ${receivedAt}::text::timestamptz, gen_random_uuid(), gen_random_uuid(),
             'inference', true
        from generate_series(1, ${count})`,
  );
}

async function tables(): Promise<string[]> {
  const rows = await place.database.query<{ name: string }>(
    (sql) =>
      sql`select relname as name from pg_class where relname ~ '^events_\\d' and relkind = 'r' order by 1`,
  );
  return rows.map(({ name }) => name);
}

async function eventsByMonth(): Promise<Record<string, number>> {
  const rows = await place.database.query<{ month: string; count: number }>(
    (sql) => sql`
      select to_char(received_at at time zone 'UTC', 'YYYY-MM') as month, count(*) from events group by 1`,
  );
  return Object.fromEntries(rows.map(({ month, count }) => [month, count]));
}

/** Runs `body` while a session, like a backup, has read `table` in a transaction that stays open. */
async function readWhile(table: string, body: () => Promise<void>): Promise<void> {
  await inTransaction(place.address, async (sql) => {
    await sql.unsafe(`select count(*) from ${table}`);
    await body();
  });
}

const NONE = { partitions: 0, late_events: 0, retention: 0 };
const KEPT = ["2026-09", "2026-10"];
const KEPT_TABLES = ["events_2026_09", "events_2026_10"];
const AHEAD = ["events_2026_11", "events_2026_12", "events_2027_01"];

describe("createUsageUpkeep() with events kept for 2 months", () => {
  test("drops events older than the two months before this one, and no newer events", async () => {
    await attachMonths("2025-12", "2026-08", "2026-09", "2026-10", "2026-11");
    for (const at of ["2025-12-01", "2026-08-31 23:59:59.999Z", "2026-09-01 00:00Z", "2026-10-05", NOW]) {
      await insertEvents(at);
    }
    const upkeep = upkeepThatKeeps(2);
    await upkeep.runAll();
    expect(await tables()).toEqual(["events_2026_09", "events_2026_10", ...AHEAD]);
    expect(await eventsByMonth()).toEqual({ "2026-09": 1, "2026-10": 1, "2026-11": 1 });
    expect(upkeep.stats()).toEqual({ kept: 2, dropped: 2, failures: NONE });
    expect(lines.join("")).toContain("Dropped a month of events month=2025-12-01 kept_months=2");
  });

  test("drops the next month when the clock reaches its time, and not before", async () => {
    await attachMonths("2026-09");
    await insertEvents("2026-09-05");
    await insertEvents("2026-10-05");
    await insertEvents("2026-11-05");
    const upkeep = upkeepThatKeeps(2);
    await setDatabaseClock("2026-12-01T00:00:00Z");
    clock.setWall("2026-11-30T23:59:58Z");
    await upkeep.runAll();
    expect(await tables()).toContain("events_2026_09");
    clock.setWall("2026-12-01T00:00:00Z");
    await upkeep.runAll();
    expect(await tables()).not.toContain("events_2026_09");
  });

  test("drops expired events without a partition of their month, and keeps newer events", async () => {
    await insertEvents("2026-03-01", 4_500);
    await insertEvents("2026-09-01", 2);
    await insertEvents("2026-10-01", 2);
    const upkeep = upkeepThatKeeps(2);
    await upkeep.runAll();
    expect(await eventsByMonth()).toEqual({ "2026-09": 2, "2026-10": 2 });
    expect(upkeep.stats()).toEqual({ kept: 2, dropped: 1, failures: NONE });
  });

  test("keeps the two newest earlier months that have events, however old they are", async () => {
    await attachMonths("2025-12", "2026-01", "2026-02", "2026-03", "2026-11");
    for (const at of ["2025-12-01", "2026-01-31", "2026-03-15", NOW]) await insertEvents(at);
    await upkeepThatKeeps(2).runAll();
    expect(await eventsByMonth()).toEqual({ "2026-01": 1, "2026-03": 1, "2026-11": 1 });
    expect(await tables()).toEqual(["events_2026_01", "events_2026_02", "events_2026_03", ...AHEAD]);
  });

  test("drops no event that was stored before both clocks went years ahead", async () => {
    await attachMonths("2026-09", "2026-10", "2026-11");
    for (const at of ["2026-10-05", NOW]) await insertEvents(at);
    await setDatabaseClock("2031-05-05");
    clock.setWall("2031-05-05");
    const upkeep = upkeepThatKeeps(2);
    await upkeep.runAll();
    await insertEvents("2031-05-05");
    await upkeep.runAll();
    expect(await eventsByMonth()).toEqual({ "2026-10": 1, "2026-11": 1, "2031-05": 1 });
  });

  test.each(["2026-11-19T11:59:00Z", "2026-11-21T12:01:00Z", "2031-05-05"])(
    "drops nothing while the database's clock is more than a day from this one's: %s",
    async (at) => {
      await attachMonths("2026-01", "2026-02");
      for (const month of ["2026-01", "2026-08", "2026-09", "2026-10"]) await insertEvents(`${month}-05`);
      await setDatabaseClock(at);
      const upkeep = upkeepThatKeeps(2);
      await upkeep.runAll();
      await upkeep.runAll();
      expect(Object.keys(await eventsByMonth())).toContain("2026-01");
      expect(upkeep.stats()).toEqual({ kept: 2, dropped: 0, failures: { ...NONE, retention: 2 } });
      expect(lines.filter((line) => line.includes("task=retention"))).toEqual([
        expect.stringMatching(/host's, so no events are dropped; set both right: timedatectl set-ntp true/),
      ]);
      await setDatabaseClock(NOW);
      await upkeep.runAll();
      expect(upkeep.stats()).toMatchObject({ dropped: 3, failures: { retention: 2 } });
    },
  );

  test("keeps the counts of usage", async () => {
    const { database } = place;
    const key = await issueKey(
      database,
      {
        email: "a@example.org",
        tier: "free",
        mode: "live",
        expiresAt: new Date("2027-11-20"),
        now: clock.now(),
      },
      { brand: createBrand("svc"), actor: { kind: "command", name: "test" } },
    );
    if (isRefusal(key)) throw new Error(key.sentence);
    await database.query(
      (sql) => sql`insert into usage (license_id, month, used) values (${key.licenseUuid}, '2026-01-01', 7)`,
    );
    await attachMonths("2026-01");
    await insertEvents("2026-01-15", 7);
    for (const month of ["2026-09", "2026-10"]) await insertEvents(`${month}-01`);
    await upkeepThatKeeps(2).runAll();
    expect(await eventsByMonth()).toEqual({ "2026-09": 1, "2026-10": 1 });
    expect(await database.query((sql) => sql`select used from usage`)).toEqual([{ used: 7 }]);
  });

  test("does not wait for a backup, blocks no insert, and drops the month an hour later", async () => {
    await attachMonths("2026-01", "2026-02", "2026-09", "2026-10", "2026-11", "2026-12", "2027-01");
    for (const month of KEPT) await insertEvents(`${month}-01`);
    const upkeep = upkeepThatKeeps(2);
    let attempts = 0;
    /** Returns how long the slowest insert took while upkeep tried to drop a month. */
    const measure = async () => {
      let slowestMs = 0;
      const end = upkeep.runAll().finally(() => attempts++);
      for (const before = attempts; attempts === before; ) {
        const beganMs = performance.now();
        await insertEvents(NOW);
        slowestMs = Math.max(slowestMs, performance.now() - beganMs);
      }
      await end;
      return slowestMs;
    };
    await readWhile("events", async () => {
      // An insert waits behind the attempt, which gives up after 250 ms.
      expect(await shortest(1_000, measure)).toBeLessThan(1_000);
      expect(await tables()).toEqual(["events_2026_01", "events_2026_02", ...KEPT_TABLES, ...AHEAD]);
      expect(upkeep.stats()).toEqual({ kept: 2, dropped: 0, failures: { ...NONE, retention: attempts } });
      expect(lines.join("")).toContain("canceling statement due to lock timeout");
      expect(lines.join("")).toContain("tried again within the hour");
    });
    await upkeep.runAll();
    expect(await tables()).toEqual([...KEPT_TABLES, ...AHEAD]);
    expect(upkeep.stats()).toMatchObject({ dropped: 2 });
  });

  test("drops a table that upkeep detached earlier, and no table that an operator detached", async () => {
    await attachMonths("2026-01", "2026-02");
    const { database } = place;
    await database.query((sql) => sql`alter table events detach partition events_2026_01`);
    await database.query((sql) => sql`alter table events detach partition events_2026_02`);
    await database.query((sql) => sql`alter table events_2026_02 rename to events_2026_02_expired`);
    await upkeepThatKeeps(2).runAll();
    expect(await tables()).toEqual(["events_2026_01", ...AHEAD]);
  });

  test("drops each month once when two processes do it at the same time", async () => {
    await attachMonths("2026-01", "2026-02", "2026-03", "2026-09", "2026-10");
    for (const month of KEPT) await insertEvents(`${month}-01`);
    const both = [upkeepThatKeeps(2), upkeepThatKeeps(2)];
    await Promise.all(both.map((upkeep) => upkeep.runAll()));
    expect(await tables()).toEqual([...KEPT_TABLES, ...AHEAD]);
    expect(both.map((upkeep) => upkeep.stats().failures.retention)).toEqual([0, 0]);
  });
});

test("createUsageUpkeep() keeps events forever by default", async () => {
  const oldest = toMonth(monthOf(Date.parse(NOW)).index - 200).firstDay.slice(0, 7);
  await attachMonths(oldest);
  await insertEvents(`${oldest}-03`);
  await insertEvents("1990-01-01");
  await upkeepThatKeeps(0).runAll();
  expect(await eventsByMonth()).toEqual({ [oldest]: 1, "1990-01": 1 });
});

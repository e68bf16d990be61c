/** The counts of answered requests, which every process adds to the same hourly rows. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { Database } from "../../../src/database/mod.ts";
import { type AnswerCount, createActivityWriter } from "../../../src/usage/activity/mod.ts";
import { createTestClock, type TestClock } from "../../support/clock.ts";
import { until } from "../../support/until.ts";
import { useDatabase } from "../../support/use.ts";

const database = useDatabase();
let clock: TestClock;
beforeEach(async () => {
  await database.query((sql) => sql`truncate activity_hours, activity_days`);
  clock = createTestClock("2026-11-22T09:30:00Z", { stands: true });
});
/** After every test, the days are the sums of the hours. */
afterEach(async () => {
  const different = await database.query(
    (sql) => sql`
      select * from activity_days
        full join (select (hour at time zone 'UTC')::date as day, endpoint, code, reason, sum(count)::bigint as count
                     from activity_hours group by 1, 2, 3, 4) as hours
       using (day, endpoint, code, reason, count)
       where hours.count is null or activity_days.count is null`,
  );
  expect([...different]).toEqual([]);
});

/** The counters of a process. */
function counters() {
  const counts = new Map<string, AnswerCount>();
  return {
    read: () => [...counts.values()],
    count(code: string, times = 1, reason = "") {
      const before = counts.get(`${code} ${reason}`)?.count ?? 0;
      counts.set(`${code} ${reason}`, { endpoint: "validate", code, reason, count: before + times });
    },
  };
}

/** Each row as `hour endpoint code reason count`. */
async function rows(): Promise<string[]> {
  const found = await database.query<{ row: string }>(
    (sql) => sql`
      select concat_ws(' ', to_char(hour at time zone 'UTC', 'HH24:MI'), endpoint, code, nullif(reason, ''), count) as row
        from activity_hours order by hour, endpoint, code, reason`,
  );
  return found.map(({ row }) => row);
}

describe("createActivityWriter()", () => {
  test("flush() adds what was counted since the last write, by code and reason", async () => {
    const process = counters();
    process.count("OK", 5);
    const writer = createActivityWriter({ database, clock, read: process.read });
    // Counts from before the start of the writer are not added: in a service they are zero.
    process.count("OK", 2);
    process.count("INVALID_KEY", 3, "suspended");
    await writer.flush();
    await writer.flush();
    process.count("INVALID_KEY", 1, "suspended");
    process.count("INVALID_KEY", 1, "revoked");
    await writer.flush();
    expect(await rows()).toEqual([
      "09:00 validate INVALID_KEY revoked 1",
      "09:00 validate INVALID_KEY suspended 4",
      "09:00 validate OK 2",
    ]);
  });

  test("adds two counters with the same endpoint, code and reason to one row", async () => {
    const counts: AnswerCount[] = [];
    const writer = createActivityWriter({ database, clock, read: () => counts });
    for (const count of [3, 4]) counts.push({ endpoint: "analytics", code: "OK", reason: "", count });
    await writer.stop();
    expect(await rows()).toEqual(["09:00 analytics OK 7"]);
  });

  test("several processes add to the same hours at the same time, and none fails", async () => {
    const failures: unknown[] = [];
    const query: Database["query"] = (build, options) =>
      database.query(build, options).catch((error) => {
        failures.push(error);
        throw error;
      });
    const processes = Array.from({ length: 4 }, counters);
    const writers = processes.map(({ read }) => createActivityWriter({ database: { query }, clock, read }));
    const codes = Array.from({ length: 1_000 }, (_, n) => `CODE_${n}`);
    for (let round = 0; round < 3; round++) {
      // Each process has another order of its codes.
      for (const [index, process] of processes.entries())
        for (const code of index % 2 === 0 ? codes : codes.toReversed()) process.count(code);
      await Promise.all(writers.map((writer) => writer.flush()));
    }
    expect(failures).toEqual([]);
    expect(await rows()).toEqual(codes.map((code) => `09:00 validate ${code} 12`).sort());
  });

  test("a failed write keeps the counts with their hour, and adds them with the next", async () => {
    let isAway = true;
    const query: Database["query"] = (build, options) =>
      isAway ? Promise.reject(new Error("away")) : database.query(build, options);
    const process = counters();
    const writer = createActivityWriter({ database: { query }, clock, read: process.read });
    process.count("OK", 2);
    await writer.flush();
    clock.advance(3_600_000);
    process.count("OK", 3);
    await writer.flush();
    process.count("OK", 4);
    isAway = false;
    await writer.flush();
    // The counters were read in the first hour and not at its end, so the second reading belongs to the first hour.
    expect(await rows()).toEqual(["09:00 validate OK 5", "10:00 validate OK 4"]);
  });

  test("keeps a bounded number of rows while the database is away", async () => {
    let isAway = true;
    let statements = 0;
    const query: Database["query"] = (build, options) => {
      statements++;
      return isAway ? Promise.reject(new Error("away")) : database.query(build, options);
    };
    const process = counters();
    const writer = createActivityWriter({ database: { query }, clock, read: process.read });
    for (let code = 0; code < 6_000; code++) process.count(`CODE_${code}`);
    await writer.flush();
    isAway = false;
    await writer.flush();
    const [row] = await database.query<{ rows: number }>(
      (sql) => sql`select count(*) as rows from activity_hours`,
    );
    expect([row?.rows, statements]).toEqual([5_000, 2]);
  });

  test("writes once a minute, and at the end of an hour", async () => {
    const process = counters();
    let ticks = 0;
    const ticking = { ...clock, monotonicMs: () => ++ticks && clock.monotonicMs() };
    const writer = createActivityWriter({ database, clock: ticking, read: process.read, tickMs: 5 });
    await writer.start();
    try {
      process.count("OK");
      clock.advance(59_000);
      ticks = 0;
      await until(() => ticks > 2);
      expect(await rows()).toEqual([]);
      clock.advance(1_000);
      await until(async () => (await rows()).length === 1);
      process.count("OK");
      clock.setWall("2026-11-22T10:00:00Z");
      await until(async () => (await rows())[0] === "09:00 validate OK 2");
      process.count("OK");
      clock.advance(60_000);
      await until(async () => (await rows())[1] === "10:00 validate OK 1");
    } finally {
      await writer.stop();
    }
  });

  test("stop() writes the last counts, after the write in progress", async () => {
    const started = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    const query: Database["query"] = async (build, options) => {
      started.resolve();
      await released.promise;
      return await database.query(build, options);
    };
    const process = counters();
    const writer = createActivityWriter({ database: { query }, clock, read: process.read });
    process.count("OK");
    void writer.flush();
    await started.promise;
    process.count("OK");
    const stopped = writer.stop();
    released.resolve();
    await stopped;
    expect(await rows()).toEqual(["09:00 validate OK 2"]);
  });
});

/** The latencies of answered requests, which every process adds to its own rows of five minutes. */
import { beforeEach, describe, expect, test } from "bun:test";
import { HOUR_MS } from "../../../src/base/calendar.ts";
import { newUuid } from "../../../src/base/ids.ts";
import type { Database } from "../../../src/database/mod.ts";
import { MOST_PROCESSES } from "../../../src/usage/latency/add_latency.ts";
import { deleteOldLatency } from "../../../src/usage/latency/delete_old_latency.ts";
import { mergeLatency } from "../../../src/usage/latency/merge_latency.ts";
import { addLatency, createLatencyWriter, findLatency } from "../../../src/usage/latency/mod.ts";
import { createTestClock, type TestClock } from "../../support/clock.ts";
import { until } from "../../support/until.ts";
import { useDatabase } from "../../support/use.ts";
import { bucketsOf, counters, rowsOf } from "./latency_kit.ts";

const database = useDatabase();
let clock: TestClock;
beforeEach(async () => {
  await database.query((sql) => sql`truncate latency_steps`);
  clock = createTestClock("2026-11-30T23:58:00Z", { stands: true });
});

const rows = () => rowsOf(database);

function startProcess(database_: Pick<Database, "query"> = database, tickMs?: number) {
  const { read, answer } = counters();
  const writer = createLatencyWriter({
    ...{ database: database_, clock, processUuid: newUuid(), read },
    ...(tickMs && { tickMs }),
  });
  return { answer, writer };
}

describe("createLatencyWriter()", () => {
  test("adds what was counted since the last write, by endpoint", async () => {
    const { answer, writer } = startProcess();
    answer("validate", 0.2);
    answer("validate", 700, { failed: 1 });
    answer("analytics", 12);
    await writer.flush();
    await writer.flush();
    answer("validate", 9_000, { refused: 1 });
    await writer.flush();
    expect(await rows()).toEqual(["11-30 23:55 analytics 1/0/0", "11-30 23:55 validate 3/1/1"]);
    const [row] = await database.query<{ buckets: number[] }>(
      (sql) => sql`select to_json(buckets) as buckets from latency_steps where endpoint = 'validate'`,
    );
    expect(row?.buckets).toEqual(bucketsOf(0.2, 700, 9_000));
  });

  test("several processes have rows of their own, which add up", async () => {
    const processes = [startProcess(), startProcess(), startProcess()];
    for (const { answer } of processes) answer("validate", 0.2);
    processes[0]?.answer("validate", 40);
    await Promise.all(processes.map(({ writer }) => writer.flush()));
    expect(await rows()).toHaveLength(3);
    const found = await findLatency(database, {
      from: new Date("2026-11-30T23:55:00Z"),
      to: new Date("2026-12-01T00:00:00Z"),
    });
    expect(found).toMatchObject([{ endpoint: "validate", steps: [{ requests: 4, refused: 0, failed: 0 }] }]);
  });

  test("writes once a minute, and when five minutes end, also at the end of a month", async () => {
    const { answer, writer } = startProcess(database, 5);
    await writer.start();
    try {
      answer("validate", 1);
      clock.advance(60_000);
      // A process that is killed now has lost nothing of its first minute.
      await until(async () => (await rows()).length === 1);
      answer("validate", 1);
      clock.setWall("2026-12-01T00:00:00Z");
      await until(async () => (await rows())[0] === "11-30 23:55 validate 2/0/0");
      answer("validate", 1);
      clock.advance(60_000);
      await until(async () => (await rows())[1] === "12-01 00:00 validate 1/0/0");
    } finally {
      await writer.stop();
    }
  });

  test("loses no request when the clock jumps back or ahead, and the times stay those of the clock", async () => {
    const { answer, writer } = startProcess();
    answer("validate", 1);
    clock.setWall("2026-11-30T20:00:00Z");
    await writer.flush();
    answer("validate", 1);
    clock.setWall("2027-11-30T20:00:00Z");
    await writer.flush();
    answer("validate", 1);
    await writer.stop();
    expect(await rows()).toEqual([
      "11-30 20:00 validate 1/0/0",
      "11-30 23:55 validate 1/0/0",
      "11-30 20:00 validate 1/0/0",
    ]);
  });

  test("a failed write keeps the counts with their time, and adds them with the next", async () => {
    let isAway = true;
    const query: Database["query"] = (build, options) =>
      isAway ? Promise.reject(new Error("away")) : database.query(build, options);
    const { answer, writer } = startProcess({ query });
    answer("validate", 1);
    await writer.flush();
    answer("validate", 600, { refused: 1 });
    await writer.flush();
    expect(await rows()).toEqual([]);
    isAway = false;
    await writer.stop();
    expect(await rows()).toEqual(["11-30 23:55 validate 2/1/0"]);
  });
});

test("addLatency() gives the processes beyond the first 16 one row, so that the table stays small", async () => {
  const gain = {
    atMs: clock.nowMs(),
    count: { endpoint: "validate", refused: 0, failed: 1, buckets: bucketsOf(1) },
  };
  const uuids = Array.from({ length: MOST_PROCESSES + 6 }, newUuid);
  for (const processUuid of uuids) await addLatency(database, [gain], { processUuid });
  // The first one still adds to its own row.
  await addLatency(database, [gain], { processUuid: uuids[0] ?? "" });
  const found = await rows();
  expect(found).toHaveLength(MOST_PROCESSES + 1);
  expect(found.toSorted().at(-1)).toEndWith("validate 6/0/6");
  expect(found.filter((row) => row.endsWith("validate 2/0/2"))).toHaveLength(1);
});

describe("deleteOldLatency()", () => {
  const count = { endpoint: "validate", refused: 0, failed: 0, buckets: bucketsOf(1) };
  const nowMs = Date.now();

  /** Deletes by a clock that is so many hours wrong, and returns the hours of the rows that stay. */
  async function deleteWith(wrongHours: number) {
    const hours = [-49, -47, -1, 0, 2, 9_000];
    const gains = hours.map((hour) => ({ atMs: nowMs + hour * HOUR_MS, count }));
    await addLatency(database, gains, { processUuid: newUuid() });
    const wrong = createTestClock(new Date(nowMs + wrongHours * HOUR_MS).toISOString(), { stands: true });
    await deleteOldLatency({ database, clock: wrong, isStopping: () => false });
    const kept = await database.query<{ at: Date }>((sql) => sql`select at from latency_steps order by at`);
    return kept.map(({ at }) => Math.round((at.getTime() - nowMs) / HOUR_MS));
  }

  test("deletes rows after 48 hours, and rows ahead that a wrong clock wrote", async () => {
    expect(await deleteWith(0)).toEqual([-47, -1, 0]);
  });

  test("keeps the rows of other processes when the clock of this one is behind or ahead", async () => {
    expect(await deleteWith(-5)).toEqual([-49, -47, -1, 0]);
    await database.query((sql) => sql`truncate latency_steps`);
    expect(await deleteWith(100)).toEqual([-47, -1, 0, 2]);
  });
});

describe("mergeLatency()", () => {
  const HOURS_AGO = [40, 1.2, 1] as const;
  const nowMs = Date.now();
  const count = (ms: number) => ({ endpoint: "validate", refused: 1, failed: 0, buckets: bucketsOf(ms) });

  /** Adds a row of each of some processes in each hour. */
  async function addHours(...processes: readonly string[]) {
    for (const [index, processUuid] of processes.entries()) {
      const gains = HOURS_AGO.map((hours) => ({ atMs: nowMs - hours * HOUR_MS, count: count(10 ** index) }));
      await addLatency(database, gains, { processUuid });
    }
  }
  const merge = (wrongHours = 0) => {
    const wrong = createTestClock(new Date(nowMs + wrongHours * HOUR_MS).toISOString(), { stands: true });
    return mergeLatency({ database, clock: wrong, isStopping: () => false });
  };
  /** How many rows each hour has. */
  async function rowsByHour() {
    const counted = await database.query<{ rows: number }>(
      (sql) => sql`select count(*)::integer as rows from latency_steps group by at order by at`,
    );
    return counted.map(({ rows }) => rows);
  }
  const find = () =>
    findLatency(database, { from: new Date(nowMs - 47 * HOUR_MS), to: new Date(nowMs + 60_000) });

  test("merges the rows of processes that are older than the last hour, and changes no number", async () => {
    const [one, other] = [newUuid(), newUuid()];
    await addHours(one, other, newUuid());
    const before = await find();
    await merge();
    expect(await rowsByHour()).toEqual([1, 1, 3]);
    expect(await find()).toEqual(before);
    // A process that writes late is added to the others.
    await addHours(one, other);
    const after = await find();
    expect(await rowsByHour()).toEqual([3, 3, 3]);
    await merge();
    expect(await rowsByHour()).toEqual([1, 1, 3]);
    expect(await find()).toEqual(after);
  });

  test("leaves the rows of a single process, and those that only a clock ahead calls old", async () => {
    const only = newUuid();
    await addHours(only);
    await merge();
    const [{ ids = [] } = {}] = await database.query<{ ids: string[] }>(
      (sql) => sql`select json_agg(distinct process_id) as ids from latency_steps`,
    );
    expect(ids).toEqual([only]);
    await addHours(newUuid());
    await merge(100);
    expect(await rowsByHour()).toEqual([1, 1, 2]);
  });
});

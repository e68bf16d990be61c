/** Finding latencies: percentiles over all processes, and the order of the endpoints. */
import { beforeEach, describe, expect, test } from "bun:test";
import { newUuid } from "../../../src/base/ids.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import {
  addLatency,
  completeLatencyQuery,
  findLatency,
  findProcessLatency,
  latencyStepsOf,
} from "../../../src/usage/latency/mod.ts";
import { slowerFactorOf } from "../../../src/usage/latency/rank_endpoints.ts";
import { useDatabase } from "../../support/use.ts";
import { bucketsOf } from "./latency_kit.ts";

const database = useDatabase();
beforeEach(async () => {
  await database.query((sql) => sql`truncate latency_steps`);
});

const NOW = new Date("2026-11-22T12:07:00Z");
const processUuid = newUuid();

interface Some {
  readonly at?: string;
  readonly ms?: readonly number[];
  readonly refused?: number;
  readonly failed?: number;
  readonly by?: string;
}

/** Adds requests of an endpoint. */
async function add(endpoint: string, { at = "12:00", ms = [1], refused = 0, failed = 0, by }: Some = {}) {
  const atMs = Date.parse(at.length === 5 ? `2026-11-22T${at}:00Z` : at);
  const count = { endpoint, refused, failed, buckets: bucketsOf(...ms) };
  await addLatency(database, [{ atMs, count }], { processUuid: by ?? processUuid });
}

async function find(query = completeLatencyQuery({}, NOW)) {
  const found = await findLatency(database, query);
  if (isRefusal(found)) throw new Error(found.sentence);
  return found;
}

const many = (ms: number, count = 100) => Array<number>(count).fill(ms);

describe("findLatency()", () => {
  test("finds nothing while nothing was counted", async () => {
    expect(await find()).toEqual([]);
  });

  test("adds the processes, and finds the percentiles of each five minutes", async () => {
    // 50 requests in the bucket up to 1 ms, 45 up to 10 ms, 5 up to 100 ms.
    await add("validate", { at: "11:55", ms: [...many(0.8, 50), ...many(6, 20)], refused: 2 });
    await add("validate", { at: "11:55", ms: [...many(6, 25), ...many(70, 5)], failed: 1, by: newUuid() });
    await add("validate", { at: "12:00", ms: [9_000] });
    const [validate] = await find();
    expect(validate?.steps).toEqual([
      {
        at: new Date("2026-11-22T11:55:00Z"),
        ...{ requests: 100, refused: 2, failed: 1 },
        ...{ p50Ms: 1, p95Ms: 10, p99Ms: expect.closeTo(90) },
      },
      // Above the last bound nothing more is known.
      {
        at: new Date("2026-11-22T12:00:00Z"),
        ...{ requests: 1, refused: 0, failed: 0 },
        ...{ p50Ms: 5_000, p95Ms: 5_000, p99Ms: 5_000 },
      },
    ]);
  });

  test("finds the last 24 hours by default, with five minutes that have begun, and no other ones", async () => {
    for (const at of ["2026-11-21T12:05:00Z", "2026-11-21T12:10:00Z", "12:05", "12:10"])
      await add("validate", { at });
    const query = completeLatencyQuery({}, NOW);
    const [validate] = await find(query);
    expect(validate?.steps.map(({ at }) => at.toISOString().slice(8, 16))).toEqual(["21T12:10", "22T12:05"]);
    expect(latencyStepsOf(query)).toHaveLength(288);
    // An end exactly between two five minutes begins none.
    const whole = completeLatencyQuery({ to: new Date("2026-11-22T12:10:00Z") }, NOW);
    expect([latencyStepsOf(whole).length, whole.from.toISOString().slice(8, 16)]).toEqual([288, "21T12:10"]);
  });

  test("adds the five minutes of each hour up", async () => {
    await add("validate", { at: "10:55", ms: [4] });
    await add("validate", { at: "11:00", ms: many(0.8, 3), refused: 1 });
    await add("validate", { at: "11:55", ms: [4], failed: 1 });
    const [validate] = await find();
    expect(validate?.hours).toEqual([
      expect.objectContaining({ at: new Date("2026-11-22T10:00:00Z"), requests: 1 }),
      expect.objectContaining({
        at: new Date("2026-11-22T11:00:00Z"),
        ...{ requests: 4, refused: 1, failed: 1, p95Ms: expect.closeTo(4.5) },
      }),
    ]);
  });

  test("compares the last hour with the 24 hours before it", async () => {
    await add("validate", { at: "12:05", ms: many(40) });
    await add("validate", { at: "11:10", ms: many(40) });
    await add("validate", { at: "11:05", ms: many(4, 30) });
    await add("validate", { at: "2026-11-21T11:10:00Z", ms: many(4, 30) });
    await add("validate", { at: "2026-11-21T11:05:00Z", ms: many(4, 30) });
    const [validate] = await find();
    expect([validate?.lastHour.requests, validate?.dayBefore.requests]).toEqual([200, 60]);
    expect([validate?.lastHour.p50Ms, validate?.dayBefore.p50Ms]).toEqual([expect.closeTo(37.5), 3.75]);
  });

  test("orders endpoints: slower than before, then failures, then requests, and the checks of the health last", async () => {
    const yesterday = "2026-11-21T20:00:00Z";
    await add("busy", { ms: many(300, 500) });
    await add("busy", { at: yesterday, ms: many(300) });
    await add("failing", { failed: 3 });
    await add("slower", { ms: many(80) });
    await add("slower", { at: yesterday, ms: many(20) });
    await add("slowest", { ms: many(400) });
    await add("slowest", { at: yesterday, ms: many(20) });
    await add("quiet");
    await add("health", { ms: many(400), failed: 9 });
    await add("health", { at: yesterday, ms: many(20) });
    const found = await find();
    expect(found.map(({ endpoint }) => endpoint)).toEqual([
      ...["slowest", "slower", "failing", "busy", "quiet", "health"],
    ]);
  });

  test("refuses a span that is empty or longer than rows are kept", async () => {
    const from = new Date(NOW.getTime() - 48 * 3_600_000);
    expect(await findLatency(database, { from, to: NOW })).toEqual([]);
    for (const [span, why] of [
      [{ from: NOW, to: NOW }, "from must be before to"],
      [{ from: new Date(from.getTime() - 1), to: NOW }, "the span is at most 48 hours; choose a later start"],
    ] as const) {
      expect(await findLatency(database, span)).toMatchObject({ sentence: `Cannot show latency: ${why}` });
    }
  });
});

describe("slowerFactorOf()", () => {
  const measured = (requests: number, p95Ms: number | null) => ({
    ...{ requests, refused: 0, failed: 0 },
    ...{ p50Ms: p95Ms, p95Ms, p99Ms: p95Ms },
  });
  test.each([
    [20, 15, 20, 10, 1.5],
    [19, 15, 20, 10, 1],
    [20, 15, 19, 10, 1],
    // Less than 1.5 times.
    [99, 149, 99, 100, 1],
    // Less than 5 ms.
    [99, 5.9, 99, 1, 1],
    [99, 6, 99, 1, 6],
    [99, 10, 99, 40, 1],
    [0, null, 99, 10, 1],
    [99, 10, 0, null, 1],
  ])("of %d requests with %d ms, after %d with %d ms, is %d", (now, nowMs, before, beforeMs, factor) => {
    expect(slowerFactorOf({ lastHour: measured(now, nowMs), dayBefore: measured(before, beforeMs) })).toBe(
      factor,
    );
  });
});

test("findProcessLatency() finds each process by itself, without checks of the health", async () => {
  const other = newUuid();
  await add("validate", { at: "11:10", ms: [4, 4] });
  await add("analytics", { at: "12:00", ms: [4] });
  await add("health", { at: "12:00", ms: many(0.1) });
  await add("validate", { at: "11:05", ms: [4, 4] });
  await add("validate", { at: "12:00", ms: [400], by: other });
  const found = await findProcessLatency(database, new Date("2026-11-22T11:12:00Z"));
  expect([...found].map(([uuid, { requests }]) => [uuid, requests]).toSorted()).toEqual(
    [
      [processUuid, 3],
      [other, 1],
    ].toSorted(),
  );
});

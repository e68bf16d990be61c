/** Which endpoints are slow now: the rule, and that reading finds by it what the page Latency finds. */
import { describe, expect, test } from "bun:test";
import { newUuid } from "../../../src/base/ids.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import {
  addLatency,
  completeLatencyQuery,
  findLatency,
  findSlowEndpoints,
  type LatencyStep,
  STEP_MS,
  slowEndpointsOf,
} from "../../../src/usage/latency/mod.ts";
import { useDatabase } from "../../support/use.ts";
import { bucketsOf } from "./latency_kit.ts";

const NOW = new Date("2026-11-22T14:07:00Z");
const END_MS = Date.parse("2026-11-22T14:05:00Z");

interface Some {
  readonly requests?: number;
  readonly p50Ms?: number;
}

/** Five minutes, of which the last that are over is 1 ago. */
function step(ago: number, p95Ms: number, { requests = 30, p50Ms = 2 }: Some = {}): LatencyStep {
  const counts = { requests, refused: 0, failed: 0 };
  return { at: new Date(END_MS - ago * STEP_MS), ...counts, p50Ms, p95Ms, p99Ms: p95Ms };
}

/** A day of five minutes, each with the p95 that is told for it. */
const day = (p95Of: (ago: number) => number, some: Some = {}) =>
  Array.from({ length: 287 }, (_, index) => step(287 - index, p95Of(287 - index), some));
const slow = (steps: readonly LatencyStep[]) => slowEndpointsOf([{ endpoint: "analytics", steps }], NOW);

describe("slowEndpointsOf()", () => {
  test("tells since when an endpoint is slow, and from what to what", () => {
    expect(slow(day((ago) => (ago <= 9 ? 240 : 28)))).toEqual([
      {
        ...{ endpoint: "analytics", since: new Date("2026-11-22T13:20:00Z") },
        ...{ share: "95 %", nowMs: 240, beforeMs: 28 },
      },
    ]);
  });

  test("still tells it after hours, and no longer after half a day", () => {
    const since = (steps: number) => slow(day((ago) => (ago <= steps ? 240 : 28)))[0]?.since;
    expect(since(100)).toEqual(new Date(END_MS - 100 * STEP_MS));
    expect(since(150)).toBeUndefined();
    expect(since(287)).toBeUndefined();
  });

  test.each([
    ["only five minutes", day((ago) => (ago === 1 ? 900 : 28))],
    ["only ten minutes", day((ago) => (ago <= 2 ? 900 : 28))],
    ["not any more", day((ago) => (ago > 1 && ago < 20 ? 900 : 28))],
    ["less than 3 times", day((ago) => (ago <= 9 ? 299 : 100))],
    ["less than 50 ms", day((ago) => (ago <= 9 ? 51.9 : 2))],
    ["few requests", day((ago) => (ago <= 9 ? 240 : 28), { requests: 6 })],
    ["few five minutes before", day((ago) => (ago <= 3 ? 240 : 28)).slice(-14)],
    ["five minutes of the last without a request", day((ago) => (ago <= 9 ? 240 : 28)).toSpliced(-2, 1)],
  ])("finds nothing if %s", (_, steps) => {
    expect(slow(steps)).toEqual([]);
  });

  test.each([
    [299, []],
    [300, ["95 %"]],
  ])("of 100 ms before, finds %d ms as it should", (ms, shares) => {
    expect(slow(day((ago) => (ago <= 3 ? ms : 100))).map(({ share }) => share)).toEqual(shares as []);
  });

  test("leaves out the five minutes that are not over", () => {
    expect(slow([...day((ago) => (ago <= 2 ? 240 : 28)), step(0, 240)])).toEqual([]);
    expect(slow([...day((ago) => (ago <= 3 ? 240 : 28)), step(0, 28)])).toHaveLength(1);
  });

  test("finds that half of the requests are slow where the slowest always were", () => {
    const steps = day(() => 400).map((one, index) => (index >= 280 ? { ...one, p50Ms: 90 } : one));
    expect(slow(steps)).toEqual([
      expect.objectContaining({ share: "half", nowMs: 90, beforeMs: 2, since: steps[280]?.at }),
    ]);
  });

  test("names the slowest first, and not the checks of the health", () => {
    const of = (ms: number) => day((ago) => (ago <= 5 ? ms : 28));
    const found = slowEndpointsOf(
      [
        { endpoint: "validate", steps: of(100) },
        { endpoint: "health", steps: of(900) },
        { endpoint: "models", steps: of(28) },
        { endpoint: "analytics", steps: of(240) },
      ],
      NOW,
    );
    expect(found.map(({ endpoint }) => endpoint)).toEqual(["analytics", "validate"]);
  });
});

describe("findSlowEndpoints()", () => {
  const database = useDatabase();

  test("finds what the page Latency finds, over all processes", async () => {
    expect(await findSlowEndpoints(database, NOW)).toEqual([]);
    for (const processUuid of [newUuid(), newUuid()]) {
      const gains = Array.from({ length: 288 }, (_, ago) => {
        const of = (endpoint: string, ms: number) => ({
          atMs: END_MS - ago * STEP_MS,
          count: { endpoint, refused: 0, failed: 0, buckets: bucketsOf(...Array<number>(15).fill(ms)) },
        });
        return [of("analytics", ago <= 9 ? 240 : 9), of("validate", ago <= 9 ? 90 : 1), of("jwks", 900)];
      });
      await addLatency(database, gains.flat(), { processUuid });
    }
    const found = await findSlowEndpoints(database, NOW);
    expect(found.map(({ endpoint, since }) => [endpoint, since.toISOString().slice(11, 16)])).toEqual([
      ["validate", "13:20"],
      ["analytics", "13:20"],
    ]);
    const query = completeLatencyQuery({}, NOW);
    const endpoints = await findLatency(database, query);
    if (isRefusal(endpoints)) throw new Error(endpoints.sentence);
    expect(slowEndpointsOf(endpoints, query.to)).toEqual(found);
  });
});

/** The console and Prometheus compute the same percentiles, because both have the same buckets. */
import { beforeEach, expect, test } from "bun:test";
import { newUuid } from "../../../src/base/ids.ts";
import { isRefusal, refuse } from "../../../src/base/refusal.ts";
import { renderExposition } from "../../../src/clients/metrics/exposition.ts";
import { createRequestMetrics } from "../../../src/clients/metrics/request_metrics.ts";
import { createLatencyWriter, findLatency } from "../../../src/usage/latency/mod.ts";
import { createTestClock } from "../../support/clock.ts";
import { call, ENDPOINTS } from "../../support/endpoints.ts";
import { parseExposition } from "../../support/exposition.ts";
import { UNKNOWN_KEY } from "../../support/keys.ts";
import { createRandom } from "../../support/random.ts";
import { startTestService } from "../../support/service.ts";
import { useTestDatabase } from "../../support/use.ts";

const on = useTestDatabase();
beforeEach(async () => {
  await on.database.query((sql) => sql`truncate latency_steps`);
});

const NOW = "2026-11-22T09:11:00Z";
const SPAN = { from: new Date("2026-11-22T09:10:00Z"), to: new Date("2026-11-22T09:15:00Z") };
const NAME = "claviger_http_request_duration_seconds";

/**
 * `histogram_quantile(share, sum by (le) (…))`, as Prometheus documents it: the first bucket whose cumulative count reaches the
 * rank, and a linear interpolation in it. For the bucket without an end it is the last bound.
 * https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile
 */
function histogramQuantile(share: number, scrapes: readonly string[], endpoint: string): number {
  const sums = new Map<number, number>();
  for (const scrape of scrapes) {
    for (const [sample, value] of parseExposition(scrape).get(NAME)?.samples ?? []) {
      const [, of, le = ""] = /_bucket\{endpoint="(\w+)",le="([^"]+)"\}/.exec(sample) ?? [];
      const bound = le === "+Inf" ? Number.POSITIVE_INFINITY : Number(le);
      if (of === endpoint) sums.set(bound, (sums.get(bound) ?? 0) + value);
    }
  }
  const buckets = [...sums].toSorted(([one], [other]) => one - other);
  const rank = share * (buckets.at(-1)?.[1] ?? 0);
  const at = buckets.findIndex(([, cumulative]) => cumulative >= rank);
  const [end = 0, cumulative = 0] = buckets[at] ?? [];
  if (end === Number.POSITIVE_INFINITY) return buckets.at(-2)?.[0] ?? Number.NaN;
  const [start, before] = buckets[at - 1] ?? [0, 0];
  return start + ((end - start) * (rank - before)) / (cumulative - before);
}

async function percentilesOf(endpoint: string) {
  const found = await findLatency(on.database, SPAN);
  if (isRefusal(found)) throw new Error(found.sentence);
  const step = found.find((each) => each.endpoint === endpoint)?.steps[0];
  return { step, ms: [step?.p50Ms, step?.p95Ms, step?.p99Ms] };
}

/** Compares the percentiles that were found with those of Prometheus. */
async function compare(scrapes: readonly string[], endpoint: string) {
  const { step, ms } = await percentilesOf(endpoint);
  const expected = [0.5, 0.95, 0.99].map((share) => histogramQuantile(share, scrapes, endpoint) * 1_000);
  expect(ms).toEqual(expected.map((each) => expect.closeTo(each, 9)));
  return step;
}

for (const seed of [1, 2, 3, 4]) {
  test(`two processes together have the percentiles of Prometheus, whatever took how long (seed ${seed})`, async () => {
    const random = createRandom(seed);
    const clock = createTestClock(NOW, { stands: true });
    const scrapes: string[] = [];
    const counted = { requests: 0, refused: 0, failed: 0 };
    for (let process = 0; process < 2; process++) {
      const metrics = createRequestMetrics();
      const writer = createLatencyWriter({
        ...{ database: on.database, clock, processUuid: newUuid(), read: metrics.latencies },
      });
      for (let n = random.between(1, 300); n > 0; n--) {
        const kind = random.pick(["good", "refused", "failed"] as const);
        counted.requests++;
        if (kind !== "good") counted[kind]++;
        const outcome =
          kind === "good"
            ? ({ status: 200, body: "" } as const)
            : refuse(kind === "refused" ? "INVALID_KEY" : "SERVER_ERROR", "a sentence");
        // From 0.01 ms to 10 s, about as many of each power of ten.
        metrics.endpoint("validate").count(outcome, 10 ** (random.between(-200, 400) / 100));
      }
      await writer.stop();
      const value = metrics
        .entries()
        .map(([endpoint, each]) => ({ labels: { endpoint }, value: each.durations() }));
      scrapes.push(renderExposition({ [NAME]: ["How long requests took", value] }));
    }
    expect(await compare(scrapes, "validate")).toMatchObject(counted);
  });
}

test("a service keeps the latencies that it shows to Prometheus, also when it stops", async () => {
  const config = { metricsListen: { host: "127.0.0.1", port: 0 } };
  const service = await startTestService({ on, config, clock: createTestClock(NOW) });
  const { apiKey } = await service.issue();
  for (let n = 0; n < 60; n++) await call(service, ENDPOINTS.validate, n % 3 === 0 ? UNKNOWN_KEY : apiKey);
  await service.get("/made/up");
  const scraped = await fetch(`http://127.0.0.1:${service.service.metrics?.port}/metrics`);
  const scrapes = [await scraped.text()];
  await service.close();
  expect(await compare(scrapes, "validate")).toMatchObject({ requests: 60, refused: 20, failed: 0 });
  expect(await compare(scrapes, "other")).toMatchObject({ requests: 1, refused: 1, failed: 0 });
});

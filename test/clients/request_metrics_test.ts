import { expect, test } from "bun:test";
import { refuse } from "../../src/base/refusal.ts";
import { createRequestMetrics } from "../../src/clients/mod.ts";

test("latency() has the times of all requests since the start but checks of the health", () => {
  const metrics = createRequestMetrics();
  const refusal = refuse("NOT_FOUND", "There is nothing at this path");
  for (let n = 0; n < 1_000; n++) metrics.endpoint("health").count(refusal, 4_000);
  expect(metrics.latency()).toEqual({ p50Ms: null, p95Ms: null });
  for (let n = 0; n < 95; n++) metrics.endpoint("validate").count(refusal, 0.6);
  for (let n = 0; n < 5; n++) metrics.endpoint("analytics").count(refusal, 90);
  const { p50Ms, p95Ms } = metrics.latency();
  expect(p50Ms).toBeWithin(0.5, 1);
  expect(p95Ms).toBe(1);
  for (let n = 0; n < 5; n++) metrics.endpoint("analytics").count(refusal, 90);
  expect(metrics.latency().p95Ms).toBeWithin(50, 100);
});

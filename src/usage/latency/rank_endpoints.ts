import type { EndpointLatency } from "./endpoint_latency.ts";

/** An endpoint counts as slower from this factor of its p95, because a bucket ends at about twice the one before. */
const SLOWER_FACTOR = 1.5;
/** Nobody notices a smaller difference. */
const SLOWER_MS = 5;
/** The p95 of fewer requests says little. */
const LEAST_REQUESTS = 20;

/** The endpoint at which a balancer checks the health all the time: it says nothing about the requests of clients. */
export const HEALTH = "health";

/** The rule by which endpoints are ordered, for people. */
export const WORST_FIRST = `The worst first: what is slower than before, by the largest factor. An endpoint is slower if the time for 95 % of its requests is in the last hour at least ${SLOWER_FACTOR} times that of the 24 hours before and ${SLOWER_MS} ms longer, with at least ${LEAST_REQUESTS} requests in each. Then the most failures of the last hour, and then the most requests. The checks of the health are last, because a process that stops answers them with an error`;

/** Returns how many times the p95 of the 24 hours before that of the last hour is; 1 for an endpoint that is not slower. */
export function slowerFactorOf({
  lastHour,
  dayBefore,
}: Pick<EndpointLatency, "lastHour" | "dayBefore">): number {
  if (Math.min(lastHour.requests, dayBefore.requests) < LEAST_REQUESTS) return 1;
  const [now, before] = [lastHour.p95Ms, dayBefore.p95Ms];
  if (!now || !before || now - before < SLOWER_MS) return 1;
  return now / before >= SLOWER_FACTOR ? now / before : 1;
}

/** Orders endpoints as {@linkcode WORST_FIRST} says. */
export function rankEndpoints(endpoints: readonly EndpointLatency[]): readonly EndpointLatency[] {
  const requests = ({ steps }: EndpointLatency) => steps.reduce((sum, step) => sum + step.requests, 0);
  const isHealth = ({ endpoint }: EndpointLatency) => Number(endpoint === HEALTH);
  return endpoints.toSorted(
    (one, other) =>
      isHealth(one) - isHealth(other) ||
      slowerFactorOf(other) - slowerFactorOf(one) ||
      other.lastHour.failed - one.lastHour.failed ||
      requests(other) - requests(one),
  );
}

/**
 * Finds the endpoints that are slow now, for the pages that say it in words. The order of the endpoints on the page Latency has
 * a finer rule (`rank_endpoints.ts`): it may find a difference that is worth a look, but no warning.
 */
import type { Database } from "../../database/mod.ts";
import { STEP_MS } from "./bounds.ts";
import type { EndpointLatency, LatencyStep } from "./endpoint_latency.ts";
import { readSteps, toStep } from "./find_latency.ts";
import { completeLatencyQuery, stepOf } from "./latency_query.ts";
import { HEALTH } from "./rank_endpoints.ts";

const SLOW_FACTOR = 3;
/** Someone who waits notices it. */
const SLOW_MS = 50;
/** One slow five minutes can be a backup: so many in a row must be slow, and all of them over. */
const SLOW_STEPS = 3;
/** In all of the last {@linkcode SLOW_STEPS}, and as many before. */
const LEAST_REQUESTS = 20;
/** An hour of the day before. A process that began just now has nothing to compare with. */
const LEAST_STEPS_BEFORE = 12;

/** The rule, for people. */
export const SLOW_RULE = `An endpoint is slow if 95 % or half of its requests took at least ${SLOW_FACTOR} times as long, and ${SLOW_MS} ms longer, in each of the last ${SLOW_STEPS} five minutes that are over as in the middle one of the day before, with at least ${LEAST_REQUESTS} requests`;

export interface SlowEndpoint {
  readonly endpoint: string;
  /** The beginning of the first of the slow five minutes, of which all later ones with a request are slow. */
  readonly since: Date;
  /** Whether the times are those of 95 % or of half of the requests. */
  readonly share: "95 %" | "half";
  /** The middle one of the slow five minutes, and that of those before. */
  readonly nowMs: number;
  readonly beforeMs: number;
}

/**
 * Finds the endpoints that are slow now, by {@linkcode SLOW_RULE}. Reads a whole day only of endpoints whose last five minutes took
 * long enough.
 */
export async function findSlowEndpoints(
  database: Pick<Database, "read">,
  now: Date,
): Promise<readonly SlowEndpoint[]> {
  const to = stepOf(now);
  const recent = await readSteps(database, { from: new Date(to.getTime() - SLOW_STEPS * STEP_MS), to });
  const endpoints = recent
    .filter(({ steps }) => steps.length === SLOW_STEPS)
    .filter(({ steps }) => steps.every((step) => (toStep(step).p95Ms ?? 0) >= SLOW_MS))
    .map(({ endpoint }) => endpoint);
  if (endpoints.length === 0) return [];
  const { from } = completeLatencyQuery({}, now);
  const found = await readSteps(database, { from, to, endpoints });
  return slowEndpointsOf(
    found.map(({ endpoint, steps }) => ({ endpoint, steps: steps.map(toStep) })),
    to,
  );
}

/** Returns the endpoints that are slow at the end of a day, by their five minutes; the slowest first. */
export function slowEndpointsOf(
  endpoints: readonly Pick<EndpointLatency, "endpoint" | "steps">[],
  to: Date,
): readonly SlowEndpoint[] {
  const factor = ({ nowMs, beforeMs }: SlowEndpoint) => nowMs / beforeMs;
  return endpoints
    .filter(({ endpoint }) => endpoint !== HEALTH)
    .flatMap(({ endpoint, steps }) => {
      const slow = slowSince(steps, stepOf(to));
      return slow === undefined ? [] : { endpoint, ...slow };
    })
    .toSorted((one, other) => factor(other) - factor(one));
}

function slowSince(all: readonly LatencyStep[], end: Date): Omit<SlowEndpoint, "endpoint"> | undefined {
  const steps = all.filter(({ at }) => at < end);
  const last = steps.slice(-SLOW_STEPS);
  const before = steps.slice(0, -SLOW_STEPS);
  const isLatest = last[0]?.at.getTime() === end.getTime() - SLOW_STEPS * STEP_MS;
  const isEnough = Math.min(requestsOf(last), requestsOf(before)) >= LEAST_REQUESTS;
  if (!isLatest || !isEnough || before.length < LEAST_STEPS_BEFORE) return undefined;
  for (const [share, of] of SHARES) {
    // Not that of all requests of the day: after an hour, the slow ones would be among the slowest 5 % of it.
    const beforeMs = middleOf(before.map(of));
    const isSlow = (step: LatencyStep) =>
      of(step) >= SLOW_FACTOR * beforeMs && of(step) - beforeMs >= SLOW_MS;
    const slow = steps.slice(steps.findLastIndex((step) => !isSlow(step)) + 1);
    const [first] = slow;
    if (first && slow.length >= SLOW_STEPS)
      return { since: first.at, share, nowMs: middleOf(slow.map(of)), beforeMs };
  }
  return undefined;
}

const SHARES = [
  ["95 %", ({ p95Ms }: LatencyStep) => p95Ms ?? 0],
  ["half", ({ p50Ms }: LatencyStep) => p50Ms ?? 0],
] as const;

const requestsOf = (steps: readonly LatencyStep[]) => steps.reduce((sum, { requests }) => sum + requests, 0);

function middleOf(numbers: readonly number[]): number {
  return numbers.toSorted((one, other) => one - other)[Math.floor(numbers.length / 2)] ?? 0;
}

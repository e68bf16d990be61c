/**
 * Counts the requests of each endpoint by outcome, and measures how long they took.
 *
 * Every request is counted here, so an outcome is an index into an array, which is fast. The labels are bounded: each
 * route has an endpoint, and all other paths share one.
 */
import { Histogram, type HistogramCounts, quantileOf } from "../../base/histogram.ts";
import { type Code, isRefusal, type KeyFlaw } from "../../base/refusal.ts";
import { BOUNDS_SECONDS, type LatencyCount } from "../../usage/latency/mod.ts";
import { CLIENT_CODES, statusOf, toWireCode, UNHEALTHY } from "../../wire/mod.ts";
import type { Outcome, Reply } from "../exchange.ts";

const REPLIES: readonly Reply["status"][] = [200, 202, 206, 304, 503];

/** The reasons for which a key is refused, with the code of the refusal. */
const FLAWS: readonly (readonly [code: Code, reason: KeyFlaw])[] = [
  ["INVALID_KEY", "unknown"],
  ["INVALID_KEY", "suspended"],
  ["INVALID_KEY", "revoked"],
  ["KEY_EXPIRED", "expired"],
  ["KEY_NOT_FOUND", "unknown"],
  ["KEY_NOT_FOUND", "revoked"],
];

/** All outcomes, in the order of the counters, each with the code that the client sees. */
const OUTCOMES: readonly Omit<OutcomeCount, "count">[] = [
  ...REPLIES.map((status) => ({ status, code: status === 503 ? UNHEALTHY : "OK", reason: "" })),
  ...CLIENT_CODES.map((code) => ({ status: statusOf(code), code: toWireCode(code), reason: "" })),
  ...FLAWS.map(([code, reason]) => ({ status: statusOf(code), code: toWireCode(code), reason })),
];
/** The index of the counter for each status of a success, each code of a refusal, and each code with its reason. */
const INDEXES = new Map<number | string, number>(
  [...REPLIES, ...CLIENT_CODES, ...FLAWS.map(([code, reason]) => `${code} ${reason}`)].map(
    (outcome, index) => [outcome, index],
  ),
);

interface OutcomeCount {
  readonly status: number;
  /** The code of the refusal; `OK` for a success, `UNHEALTHY` for the 503 of health. */
  readonly code: string;
  /** Why a key was refused; empty if the code says it all. */
  readonly reason: string;
  readonly count: number;
}

/** The counters of one endpoint. */
export class EndpointMetrics {
  readonly #outcomes = new Float64Array(OUTCOMES.length);
  readonly #seconds = new Histogram(BOUNDS_SECONDS);
  /** Events of batches that were refused because the month's quota was used up. */
  eventsOverQuota = 0;

  count(outcome: Outcome, durationMs: number): void {
    const index = indexOf(outcome);
    this.#outcomes[index] = (this.#outcomes[index] as number) + 1;
    this.#seconds.observe(durationMs / 1_000);
  }

  outcomes(): OutcomeCount[] {
    return OUTCOMES.map((outcome, index) => ({ ...outcome, count: this.#outcomes[index] ?? 0 }));
  }

  durations(): HistogramCounts {
    return this.#seconds.counts();
  }
}

/** Returns the index of an outcome's counter. Only a refusal of a key pays for its reason. */
function indexOf(outcome: Outcome): number {
  if (!isRefusal(outcome)) return INDEXES.get(outcome.status) as number;
  const { code, reason } = outcome;
  const explained = reason === undefined ? undefined : INDEXES.get(`${code} ${reason}`);
  return explained ?? (INDEXES.get(code) as number);
}

export type RequestMetrics = ReturnType<typeof createRequestMetrics>;

/** Creates the counters of all endpoints. */
export function createRequestMetrics() {
  const endpoints = new Map<string, EndpointMetrics>();
  return {
    /** Returns the counters of the endpoint with that name, and creates them at the first call. */
    endpoint(name: string): EndpointMetrics {
      const metrics = endpoints.get(name) ?? new EndpointMetrics();
      endpoints.set(name, metrics);
      return metrics;
    },
    entries: () => [...endpoints],
    /**
     * Returns within how many milliseconds half of the requests and 95 % of them were answered; null before the first one.
     * Checks of the health are left out: a balancer sends them all the time.
     */
    latency() {
      const measured = [...endpoints].flatMap(([name, metrics]) =>
        name === "health" ? [] : metrics.durations(),
      );
      const toMs = (seconds: number | null) => seconds && seconds * 1_000;
      return { p50Ms: toMs(quantileOf(measured, 0.5)), p95Ms: toMs(quantileOf(measured, 0.95)) };
    },
    /** Returns how the requests of every endpoint ended, and how many of them took how long. */
    latencies: (): LatencyCount[] =>
      [...endpoints].map(([endpoint, metrics]) => {
        const outcomes = metrics.outcomes();
        const sumOf = (isCounted: (outcome: OutcomeCount) => boolean) =>
          outcomes.reduce((sum, outcome) => sum + (isCounted(outcome) ? outcome.count : 0), 0);
        return {
          endpoint,
          refused: sumOf(({ code, status }) => code !== "OK" && status < 500),
          failed: sumOf(({ status }) => status >= 500),
          buckets: metrics.durations().counts,
        };
      }),
    /** Returns every outcome of every endpoint that was counted. */
    answers: () =>
      [...endpoints].flatMap(([endpoint, metrics]) =>
        metrics.outcomes().flatMap((outcome) => (outcome.count === 0 ? [] : [{ endpoint, ...outcome }])),
      ),
  };
}

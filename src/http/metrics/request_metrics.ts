/**
 * Counters of the requests of each endpoint: by outcome, and how long they took.
 *
 * On the path of every request, so an outcome is an index into an array. The labels are bounded: endpoints
 * are those of the routes, and every path that is none of theirs counts as one.
 */
import { Histogram, type HistogramCounts } from "../../histogram.ts";
import { type Code, isRefusal } from "../../refusal.ts";
import { CODES, statusOf, toWireCode } from "../error_response.ts";
import type { Outcome, Reply } from "../exchange.ts";

/** A cached answer takes a tenth of a millisecond, a commit some ten, and after five seconds it is over. */
const BOUNDS_SECONDS = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
];

const REPLIES: readonly Reply["status"][] = [200, 202, 206, 304, 503];

/** What a request may come to, each under its place in the arrays, with the code that the client sees. */
const OUTCOMES: readonly { readonly status: number; readonly code: Code | "OK" | "UNHEALTHY" }[] = [
  ...REPLIES.map((status) => ({ status, code: status === 503 ? ("UNHEALTHY" as const) : ("OK" as const) })),
  ...CODES.map((code) => ({ status: statusOf(code), code: toWireCode(code) })),
];
const PLACES = new Map<number | Code, number>(
  [...REPLIES, ...CODES].map((outcome, place) => [outcome, place]),
);

export interface OutcomeCount {
  readonly status: number;
  /** The refusal's code; `OK` for a success, `UNHEALTHY` where health says so. */
  readonly code: string;
  readonly count: number;
}

/** The counters of one endpoint. */
export class EndpointMetrics {
  readonly #outcomes = new Float64Array(OUTCOMES.length);
  readonly #seconds = new Histogram(BOUNDS_SECONDS);

  count(outcome: Outcome, durationMs: number): void {
    const place = PLACES.get(isRefusal(outcome) ? outcome.code : outcome.status) as number;
    this.#outcomes[place] = (this.#outcomes[place] as number) + 1;
    this.#seconds.observe(durationMs / 1_000);
  }

  outcomes(): OutcomeCount[] {
    return OUTCOMES.map((outcome, place) => ({ ...outcome, count: this.#outcomes[place] ?? 0 }));
  }

  durations(): HistogramCounts {
    return this.#seconds.counts();
  }
}

export interface RequestMetrics {
  /** The counters of the endpoint with that name, made when they are first asked for. */
  endpoint(name: string): EndpointMetrics;
  entries(): readonly (readonly [name: string, metrics: EndpointMetrics])[];
}

export function createRequestMetrics(): RequestMetrics {
  const endpoints = new Map<string, EndpointMetrics>();
  return {
    endpoint(name) {
      const metrics = endpoints.get(name) ?? new EndpointMetrics();
      endpoints.set(name, metrics);
      return metrics;
    },
    entries: () => [...endpoints],
  };
}

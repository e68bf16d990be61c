/**
 * How long requests of clients took, by five minutes and endpoint, over all processes: for the page Latency and for the API.
 * Owns the table `latency_steps`.
 */

export { addLatency, type LatencyCount } from "./add_latency.ts";
export { BOUNDS_SECONDS, LATENCY_KEPT_HOURS, STEP_MS } from "./bounds.ts";
export { deleteLatencyOf, latencyUpkeep } from "./delete_old_latency.ts";
export type { EndpointLatency, LatencyStep, Measured } from "./endpoint_latency.ts";
export { findLatency, findProcessLatency } from "./find_latency.ts";
export {
  completeLatencyQuery,
  LATENCY_CONDITIONS,
  type LatencyQuery,
  latencyStepsOf,
  stepOf,
} from "./latency_query.ts";
export { createLatencyWriter } from "./latency_writer.ts";
export { slowerFactorOf, WORST_FIRST } from "./rank_endpoints.ts";
export { findSlowEndpoints, SLOW_RULE, type SlowEndpoint, slowEndpointsOf } from "./slow_endpoints.ts";

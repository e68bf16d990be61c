import { growLimit } from "../base/rate_limits/mod.ts";

/** The endpoints with a rate limit, by their names in the settings. */
export const LIMITED_ENDPOINTS = [
  "validate",
  "refresh",
  "revoke",
  "license",
  "repo_token",
  "models",
  "downloads",
  "analytics",
  "analytics_batch",
  "machine_activate",
  "machine_heartbeat",
  "machine_release",
  "machine_list",
] as const;
export type LimitedEndpoint = (typeof LIMITED_ENDPOINTS)[number];

const NAMES: Readonly<Record<LimitedEndpoint | "health" | "jwks" | "openapi", string>> = {
  validate: "checks of keys",
  refresh: "refreshed licenses",
  revoke: "revocations",
  license: "signed licenses",
  repo_token: "repository tokens",
  models: "lists of models",
  downloads: "downloads",
  analytics: "events",
  analytics_batch: "batches of events",
  machine_activate: "activations of machines",
  machine_heartbeat: "heartbeats of machines",
  machine_release: "releases of machines",
  machine_list: "lists of machines",
  health: "checks of the health",
  jwks: "public keys",
  openapi: "descriptions of the API",
};

/** Returns what clients ask an endpoint for, such as `checks of keys`. Another endpoint is its own name. */
export function nameOfEndpoint(endpoint: string): string {
  return Object.hasOwn(NAMES, endpoint) ? NAMES[endpoint as keyof typeof NAMES] : endpoint;
}

/** The endpoints at which the limit of a key grows with the machines of its license, so that all of them can start at once. */
export const GROWING_ENDPOINTS: readonly LimitedEndpoint[] = ["license", "machine_activate", "machine_list"];

/** Returns the limits that count for a key whose limits grow to `leastLimit`, in requests a minute. */
export function limitsOfKey(
  limits: Readonly<Record<string, number>>,
  leastLimit: number,
): Readonly<Record<string, number>> {
  const grown = GROWING_ENDPOINTS.map((endpoint) => [endpoint, growLimit(limits[endpoint] ?? 0, leastLimit)]);
  return { ...limits, ...Object.fromEntries(grown) };
}

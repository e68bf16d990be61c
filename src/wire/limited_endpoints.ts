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

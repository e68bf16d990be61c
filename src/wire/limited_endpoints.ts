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
  "machine_activate",
  "machine_heartbeat",
  "machine_release",
] as const;
export type LimitedEndpoint = (typeof LIMITED_ENDPOINTS)[number];

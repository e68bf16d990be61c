/**
 * The conditions of the lists of the console, each with a value that cannot be read. `conditions_test.ts` tests that no
 * other page is a list.
 */

/** A value, or several, for each condition. */
export type Wrong = Readonly<Record<string, string | readonly string[]>>;

/** A value that cannot be read, for each condition of the keys in the API and in the console. */
export const WRONG_FOR_KEYS: Wrong = {
  search: "two\nlines",
  account: "Grace",
  tier: "gold",
  state: "live",
  mode: "demo",
  expiring_within: "30 days",
  sort: "expiry",
  external_id: "x".repeat(256),
  near_quota: "79",
  unused_for: "31",
  runs_out_within: "32",
  refused_now: "yes",
  all_places_taken: "false",
  feature: "Custom models",
};

export const AFTER: Wrong = { after: "next" };
/** The place of a page, which each list of the console has. */
const PLACE: Wrong = { ...AFTER, before: "previous" };

const AUDIT_CONDITIONS = {
  account: "Grace",
  key: "two\nlines",
  actor: "two\nlines",
  action: "key.revoked",
  since: "yesterday",
  until: "2026-11-31",
};

/** The pages with conditions, by their paths below `/console`. */
export const CONSOLE_CONDITIONS: Readonly<Record<string, Wrong>> = {
  "/keys": { ...WRONG_FOR_KEYS, ...PLACE },
  "/keys.csv": WRONG_FOR_KEYS,
  "/licenses/:id": { month: "2026-13" },
  "/accounts": { search: "!!", sort: "created", ...PLACE },
  "/machines": {
    ...{ account: "Grace", license: "lic_1", key: "key_1", state: "free", sort: "latest_used" },
    ...{ name: "!!", unseen: "a month" },
    ...PLACE,
  },
  "/notices": {
    ...{ kind: "license", state: "active", account: "Grace", license: "lic_1", sort: "latest_used" },
    ...PLACE,
  },
  "/models": { sort: "size", ...PLACE },
  "/audit": { ...AUDIT_CONDITIONS, ...PLACE },
  "/audit.csv": AUDIT_CONDITIONS,
  "/usage": { month: "November", ...PLACE },
  "/usage.csv": { month: "2026-00" },
  "/search": { q: ["two\nlines", "!!", "x".repeat(256), "svc_live_01234567"] },
  "/health": { endpoint: "No endpoint" },
  "/health/latency": {
    endpoint: "No endpoint",
    to: "now",
    at: ["noon", "9999-12-31T23:59:59Z", "1000-01-01"],
  },
  "/activity": { by: "tier", step: "week", to: "now" },
};

/**
 * The conditions of the lists of the console, each with a value that cannot be read. `conditions_test.ts` tests that no
 * other page is a list.
 */

/** A value, or several, for each condition. */
export type Wrong = Readonly<Record<string, string | readonly string[]>>;

/** A value that cannot be read, for each condition of the keys in the API and in the console. */
export const KEY_CONDITIONS: Wrong = {
  search: "two\nlines",
  account: "Grace",
  tier: "gold",
  state: "live",
  mode: "demo",
  expiring_within: "30 days",
  external_id: "x".repeat(256),
  near_quota: "79",
  unused_for: "31",
  runs_out_within: "32",
  refused_now: "yes",
  all_places_taken: "false",
};

export const AFTER: Wrong = { after: "next" };

/** The pages with conditions, by their paths below `/console`. */
export const CONSOLE_CONDITIONS: Readonly<Record<string, Wrong>> = {
  "/keys": { ...KEY_CONDITIONS, ...AFTER },
  "/keys.csv": KEY_CONDITIONS,
  "/keys/:id": { month: "2026-13" },
  "/accounts": { search: "!!", ...AFTER },
  "/machines": { account: "Grace", license: "lic_1", state: "free", ...AFTER },
  "/models": AFTER,
  "/audit": {
    account: "Grace",
    key: "svc_test_…ce05",
    actor: "olga",
    action: "key.revoked",
    since: "yesterday",
    until: "2026-11-31",
    ...AFTER,
  },
  "/usage": { month: "November", ...AFTER },
  "/usage.csv": { month: "2026-00" },
  "/activity": { by: "tier", step: "week", to: "now" },
};

/** Renders keys as JSON, for `--json` of the commands and for the API. */
import { toTimestamp } from "../../base/calendar.ts";
import { renderPlaces } from "../mod.ts";
import type { KeyExplanation } from "./explain_key.ts";
import type { KeySummary } from "./list_keys.ts";

/** Renders a key of a list. */
export function renderKey(key: KeySummary) {
  return {
    id: key.id,
    key: key.hint,
    user_id: key.userId,
    license_id: key.licenseId,
    external_id: key.externalId,
    email: key.email,
    name: key.name,
    organization: key.organization,
    tier: key.tier,
    mode: key.mode,
    state: key.state,
    monthly_limit: key.monthlyLimit,
    ...renderPlaces(key),
    used: key.used,
    expires_at: toTimestamp(key.expiresAt),
    created_at: toTimestamp(key.createdAt),
    last_used_at: key.lastUsedAt && toTimestamp(key.lastUsedAt),
    replaced_by: key.replacedBy,
    refused_now: key.obstacles,
    requests_last_hour: key.requestsLastHour,
    refused_last_hour: key.refusedLastHour,
    runs_out_on: key.runsOutOn,
    places_taken: key.placesTaken,
  };
}

/** Renders why a key works or does not. `limits` are the requests a minute of each endpoint; 0 means unlimited. */
export function renderExplanation(
  { key, since, change, resetsAt, refusals }: KeyExplanation,
  limits: Readonly<Record<string, number>>,
) {
  return {
    id: key.id,
    key: key.hint,
    user_id: key.userId,
    license_id: key.licenseId,
    email: key.email,
    tier: key.tier,
    mode: key.mode,
    state: key.state,
    since: since && toTimestamp(since),
    change: change && { ...change, at: toTimestamp(change.at) },
    obstacles: key.obstacles,
    expires_at: toTimestamp(key.expiresAt),
    license_expires_at: toTimestamp(key.licenseExpiresAt),
    replaced_by: key.replacedBy,
    quota: {
      monthly_limit: key.monthlyLimit,
      used: key.used,
      remaining: key.monthlyLimit === null ? null : Math.max(0, key.monthlyLimit - key.used),
      resets_at: resetsAt,
    },
    ...renderPlaces(key),
    // Requests a minute; null means unlimited.
    limits: Object.fromEntries(Object.entries(limits).map(([endpoint, limit]) => [endpoint, limit || null])),
    last_used_at: key.lastUsedAt && toTimestamp(key.lastUsedAt),
    refusals: refusals.map(({ code, reason, lastAt, count }) => ({
      code,
      reason,
      last_at: toTimestamp(lastAt),
      count,
    })),
  };
}

/** The fields of the answer why a key works or does not. */
import * as v from "valibot";
import { count, fieldsOf, renderFields, timestamp } from "../../base/answer_fields.ts";
import { toTimestamp } from "../../base/calendar.ts";
import type { KeyExplanation } from "./explain_key.ts";
import { KEY_FIELDS } from "./key_fields.ts";

interface Explained extends KeyExplanation {
  /** The requests a minute of each endpoint; 0 means unlimited. */
  readonly limits: Readonly<Record<string, number>>;
}

const field = fieldsOf<Explained>();

/** Returns the field of the key that has this name. */
function ofKey<Name extends keyof typeof KEY_FIELDS>(name: Name) {
  const { schema, of } = KEY_FIELDS[name];
  return { schema, of: ({ key }: Explained) => of(key) };
}

export const EXPLANATION_FIELDS = {
  id: ofKey("id"),
  key: ofKey("key"),
  user_id: ofKey("user_id"),
  license_id: ofKey("license_id"),
  email: ofKey("email"),
  tier: ofKey("tier"),
  mode: ofKey("mode"),
  state: ofKey("state"),
  since: field(
    v.nullable(timestamp()),
    ({ since }) => since && toTimestamp(since),
    "Since when it has this state",
  ),
  change: field(
    v.nullable(
      v.object({ at: timestamp(), actor: v.string(), action: v.string(), reason: v.nullable(v.string()) }),
    ),
    ({ change }) => change && { ...change, at: toTimestamp(change.at) },
  ),
  obstacles: ofKey("refused_now"),
  expires_at: ofKey("expires_at"),
  starts_on_first_use: ofKey("starts_on_first_use"),
  term_days: ofKey("term_days"),
  latest_start: ofKey("latest_start"),
  started_at: ofKey("started_at"),
  license_expires_at: field(timestamp(), ({ key }) => toTimestamp(key.licenseExpiresAt)),
  replaced_by: ofKey("replaced_by"),
  quota: field(
    v.object({
      monthly_limit: KEY_FIELDS.monthly_limit.schema,
      used: count(),
      remaining: v.nullable(count()),
      resets_at: timestamp(),
    }),
    ({ key: { monthlyLimit, used }, resetsAt }) => ({
      monthly_limit: monthlyLimit,
      used,
      remaining: monthlyLimit === null ? null : Math.max(0, monthlyLimit - used),
      resets_at: resetsAt,
    }),
  ),
  max_machines: ofKey("max_machines"),
  seat_minutes: ofKey("seat_minutes"),
  limits: field(
    v.record(v.string(), v.nullable(count())),
    ({ limits }) =>
      Object.fromEntries(Object.entries(limits).map(([endpoint, limit]) => [endpoint, limit || null])),
    "Requests a minute for each endpoint; null means unlimited",
  ),
  last_used_at: ofKey("last_used_at"),
  refusals: field(
    v.array(
      v.object({
        code: v.string(),
        reason: v.nullable(v.string()),
        last_at: timestamp(),
        count: count(1),
      }),
    ),
    ({ refusals }) =>
      refusals.map(({ code, reason, lastAt, count }) => ({
        code,
        reason,
        last_at: toTimestamp(lastAt),
        count,
      })),
  ),
} as const;

/** Renders why a key works or does not. `limits` are the requests a minute of each endpoint; 0 means unlimited. */
export function renderExplanation(explanation: KeyExplanation, limits: Explained["limits"]) {
  return renderFields(EXPLANATION_FIELDS, { ...explanation, limits });
}

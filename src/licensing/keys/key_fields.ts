/** The fields of a key in answers to operators, without its text. */
import * as v from "valibot";
import {
  count,
  fieldsOf,
  identifier,
  oneOfThese,
  renderFields,
  timestamp,
} from "../../base/answer_fields.ts";
import { toTimestamp } from "../../base/calendar.ts";
import { ALLOWANCE_FIELDS, LISTED_STATES, MODES, SHARED_FIELDS, TERM_FIELDS } from "../mod.ts";
import { type KeySummary, MOST_PLACES } from "./list_keys.ts";
import { OBSTACLES } from "./obstacles.ts";

const field = fieldsOf<KeySummary>();

export const KEY_FIELDS = {
  id: field(identifier("key"), ({ id }) => id),
  key: field(
    v.string(),
    ({ hint }) => hint,
    "The prefix, and the first and the last four characters as far as they are known",
  ),
  user_id: SHARED_FIELDS.user_id,
  license_id: field(identifier("lic"), ({ licenseId }) => licenseId),
  external_id: SHARED_FIELDS.external_id,
  email: SHARED_FIELDS.email,
  name: field(v.string(), ({ name }) => name),
  organization: field(v.string(), ({ organization }) => organization),
  tier: SHARED_FIELDS.tier,
  mode: field(v.picklist(MODES), ({ mode }) => mode),
  state: field(oneOfThese(LISTED_STATES), ({ state }) => state),
  monthly_limit: SHARED_FIELDS.monthly_limit,
  ...ALLOWANCE_FIELDS,
  used: SHARED_FIELDS.used,
  expires_at: SHARED_FIELDS.expires_at,
  ...TERM_FIELDS,
  updates_until: SHARED_FIELDS.updates_until,
  features: SHARED_FIELDS.features,
  own_features: SHARED_FIELDS.own_features,
  entitlements: SHARED_FIELDS.entitlements,
  own_entitlements: SHARED_FIELDS.own_entitlements,
  created_at: SHARED_FIELDS.created_at,
  last_used_at: field(
    v.nullable(timestamp()),
    ({ lastUsedAt }) => lastUsedAt && toTimestamp(lastUsedAt),
    "Exact to the minute; null: never used",
  ),
  replaced_by: field(
    v.nullable(identifier("key")),
    ({ replacedBy }) => replacedBy,
    "The key that replaced it by rotation",
  ),
  refused_now: field(
    v.array(oneOfThese(OBSTACLES)),
    ({ obstacles }) => [...obstacles],
    "All reasons for which the key is refused now; empty for a key that works",
  ),
  requests_last_hour: field(
    count(),
    ({ requestsLastHour }) => requestsLastHour,
    "Of the last hour, counted from its first refusal for too many requests on; 0 without one",
  ),
  refused_last_hour: field(
    count(),
    ({ refusedLastHour }) => refusedLastHour,
    "How many of them were refused, because there were too many",
  ),
  runs_out_on: field(
    v.nullable(v.string()),
    ({ runsOutOn }) => runsOutOn,
    "The day, UTC, on which the quota is used up before it resets, at the rate of the last seven days that are over, by the stored figures",
  ),
  places_taken: field(
    v.nullable(count()),
    ({ placesTaken }) => placesTaken,
    `The machines that hold a place, at most ${MOST_PLACES}; null: they are not counted`,
  ),
} as const;

/** Renders a key as JSON, for `--json` of the commands and for the API. */
export function renderKey(key: KeySummary) {
  return renderFields(KEY_FIELDS, key);
}

/** The schemas of answers about keys and licenses. `renderKey` and `renderLicense` make these answers. */

import * as v from "valibot";
import { count, described, identifier, oneOfThese, timestamp } from "../../base/answer_fields.ts";
import { MOST_PLACES, OBSTACLES } from "../../licensing/keys/mod.ts";
import { LISTED_STATES, MODES, TIERS } from "../../licensing/mod.ts";
import { PLACES } from "../frame/api/fields.ts";
import { titled } from "../frame/api/route.ts";

const MODE = v.picklist(MODES);
const STATE = oneOfThese(LISTED_STATES);
const LIMIT = described(v.nullable(count()), "Inferences a month; null means unlimited");
const EXTERNAL_ID = described(v.nullable(v.string()), "Your own name for the license");

const REFUSED_NOW = described(
  v.array(oneOfThese(OBSTACLES)),
  "All reasons for which the key is refused now; empty for a key that works",
);

/** What every answer about a key has of its account and license. */
const OF_LICENSE = {
  user_id: identifier("usr"),
  license_id: identifier("lic"),
  email: v.string(),
  tier: v.picklist(TIERS),
  mode: MODE,
};

/** A key, without the key itself. */
export const KEY = titled("Key", {
  id: identifier("key"),
  key: described(
    v.string(),
    "The prefix, and the first and the last four characters as far as they are known",
  ),
  ...OF_LICENSE,
  external_id: EXTERNAL_ID,
  name: v.string(),
  organization: v.string(),
  state: STATE,
  monthly_limit: LIMIT,
  ...PLACES,
  used: described(count(), "Inferences of this month"),
  expires_at: timestamp(),
  created_at: timestamp(),
  last_used_at: described(v.nullable(timestamp()), "Exact to the minute; null: never used"),
  replaced_by: described(v.nullable(identifier("key")), "The key that replaced it by rotation"),
  refused_now: REFUSED_NOW,
  requests_last_hour: described(
    count(),
    "Of the last hour, counted from its first refusal for too many requests on; 0 without one",
  ),
  refused_last_hour: described(count(), "How many of them were refused, because there were too many"),
  runs_out_on: described(
    v.nullable(v.string()),
    "The day, UTC, on which the quota is used up before it resets, at the rate of the last seven days that are over, by the stored figures",
  ),
  places_taken: described(
    v.nullable(count()),
    `The machines that hold a place, at most ${MOST_PLACES}; null: they are not counted`,
  ),
});

/** A key that was just issued, with the key itself. */
export const ISSUED_KEY = titled("IssuedKey", {
  id: identifier("key"),
  api_key: described(v.string(), "The key itself. It is not stored: show it once"),
  ...OF_LICENSE,
  expires_at: timestamp(),
  external_id: EXTERNAL_ID,
});

const SUCCESSOR = {
  id: identifier("key"),
  api_key: described(v.string(), "The new key itself. It is not stored: show it once"),
  replaces: identifier("key"),
} as const;

/** A key that takes the place of a revoked one, with the key itself. */
export const SUCCESSOR_KEY = titled("SuccessorKey", SUCCESSOR);

/** A key that was just rotated in, with the key itself. */
export const ROTATED_KEY = titled("RotatedKey", { ...SUCCESSOR, old_works_until: timestamp() });

/** The state of a key after a change. */
export const KEY_STATE = titled("KeyState", { id: identifier("key"), state: STATE });

/** Why a key works or does not. */
export const EXPLANATION = titled("KeyExplanation", {
  id: identifier("key"),
  key: v.string(),
  ...OF_LICENSE,
  state: STATE,
  since: described(v.nullable(timestamp()), "Since when it has this state"),
  change: v.nullable(
    v.object({
      at: timestamp(),
      actor: v.string(),
      action: v.string(),
      reason: v.nullable(v.string()),
    }),
  ),
  obstacles: REFUSED_NOW,
  expires_at: timestamp(),
  license_expires_at: timestamp(),
  replaced_by: v.nullable(identifier("key")),
  quota: v.object({
    monthly_limit: LIMIT,
    used: count(),
    remaining: v.nullable(count()),
    resets_at: timestamp(),
  }),
  ...PLACES,
  limits: described(
    v.record(v.string(), v.nullable(count())),
    "Requests a minute for each endpoint; null means unlimited",
  ),
  last_used_at: v.nullable(timestamp()),
  refusals: v.array(
    v.object({
      code: v.string(),
      reason: v.nullable(v.string()),
      last_at: timestamp(),
      count: count(1),
    }),
  ),
});

/** The use of a license by day. */
export const USAGE_BY_DAY = titled("UsageByDay", {
  id: identifier("key"),
  license_id: identifier("lic"),
  month: v.string(),
  monthly_limit: LIMIT,
  used: count(),
  imported: described(count(), "Units without a day, that were imported with a key"),
  days: v.array(v.object({ day: v.string(), used: count() })),
});

const licenseFields = {
  id: identifier("lic"),
  user_id: identifier("usr"),
  email: v.string(),
  external_id: EXTERNAL_ID,
  tier: v.picklist(TIERS),
  monthly_limit: LIMIT,
  ...PLACES,
  used: described(count(), "Inferences of this month"),
  expires_at: timestamp(),
  created_at: timestamp(),
  keys: described(
    v.array(v.object({ id: identifier("key"), mode: MODE, state: STATE })),
    "The newest key first, at most 100",
  ),
};

/** A license with its keys. */
export const LICENSE = titled("License", licenseFields);

/** A license after a change. */
export const CHANGED_LICENSE = titled("ChangedLicense", {
  ...licenseFields,
  changed: described(v.boolean(), "False if the license already had these values"),
  before: described(
    v.partial(
      v.object({
        ...{ tier: v.picklist(TIERS), monthly_limit: LIMIT, ...PLACES, expires_at: timestamp() },
        external_id: EXTERNAL_ID,
      }),
    ),
    "The values that changed, as they were before",
  ),
});

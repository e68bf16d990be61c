/** The schemas of answers about keys and licenses. The rooms declare the fields of both. */

import * as v from "valibot";
import { count, described, schemasOf, timestamp } from "../../base/answer_fields.ts";
import { EXPLANATION_FIELDS, KEY_FIELDS } from "../../licensing/keys/mod.ts";
import { ALLOWANCE_FIELDS, LICENSE_FIELDS, TERM_FIELDS } from "../../licensing/mod.ts";
import { OVER } from "../../usage/mod.ts";
import { titled } from "../frame/api/route.ts";

const OF_KEY = schemasOf(KEY_FIELDS);
const { id, user_id, license_id, email, tier, mode, state, expires_at, external_id, monthly_limit } = OF_KEY;

/** The data of a key, without its text. */
export const KEY = titled("Key", OF_KEY);

/** A key that was just issued, with the key itself. */
export const ISSUED_KEY = titled("IssuedKey", {
  id,
  api_key: described(v.string(), "The key itself. It is not stored: show it once"),
  user_id,
  license_id,
  email,
  tier,
  mode,
  expires_at,
  external_id,
});

const SUCCESSOR = {
  id,
  api_key: described(v.string(), "The new key itself. It is not stored: show it once"),
  replaces: id,
} as const;

/** A key that takes the place of a revoked one, with the key itself. */
export const SUCCESSOR_KEY = titled("SuccessorKey", SUCCESSOR);

/** A key that was just rotated in, with the key itself. */
export const ROTATED_KEY = titled("RotatedKey", { ...SUCCESSOR, old_works_until: timestamp() });

/** The state of a key after a change. */
export const KEY_STATE = titled("KeyState", { id, state });

/** Why a key works or does not. */
export const EXPLANATION = titled("KeyExplanation", schemasOf(EXPLANATION_FIELDS));

/** The use of a license by day. */
export const USAGE_BY_DAY = titled("UsageByDay", {
  id,
  license_id,
  month: v.string(),
  monthly_limit,
  used: count(),
  imported: described(count(), "Units without a day, that were imported with a key"),
  over: described(count(), OVER),
  days: v.array(v.object({ day: v.string(), used: count() })),
});

const OF_LICENSE = schemasOf(LICENSE_FIELDS);

/** A license with its keys. */
export const LICENSE = titled("License", OF_LICENSE);

/** A license after a change. */
export const CHANGED_LICENSE = titled("ChangedLicense", {
  ...OF_LICENSE,
  changed: described(v.boolean(), "False if the license already had these values"),
  before: described(
    v.partial(
      v.object({
        tier,
        monthly_limit,
        ...schemasOf(ALLOWANCE_FIELDS),
        expires_at,
        ...schemasOf(TERM_FIELDS),
        updates_until: OF_LICENSE.updates_until,
        own_features: OF_LICENSE.own_features,
        own_entitlements: OF_LICENSE.own_entitlements,
        external_id,
      }),
    ),
    "The values that changed, as they were before",
  ),
});

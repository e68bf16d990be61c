/** The fields of a license in answers to operators. */
import * as v from "valibot";
import { count, fieldsOf, identifier, oneOfThese, renderFields, timestamp } from "../base/answer_fields.ts";
import { toTimestamp } from "../base/calendar.ts";
import { type LicenseSummary, MAX_KEYS } from "./find_license.ts";
import { LISTED_STATES } from "./key_states.ts";
import { MODES } from "./modes.ts";
import { PLACES_FIELDS } from "./places.ts";
import { TIERS } from "./tiers.ts";

const field = fieldsOf<LicenseSummary>();

export const LICENSE_FIELDS = {
  id: field(identifier("lic"), ({ id }) => id),
  user_id: field(identifier("usr"), ({ userId }) => userId),
  email: field(v.string(), ({ email }) => email),
  external_id: field(v.nullable(v.string()), ({ externalId }) => externalId, "Your own name for the license"),
  tier: field(v.picklist(TIERS), ({ tier }) => tier),
  monthly_limit: field(
    v.nullable(count()),
    ({ monthlyLimit }) => monthlyLimit,
    "Inferences a month; null means unlimited",
  ),
  ...PLACES_FIELDS,
  used: field(count(), ({ used }) => used, "Inferences of this month"),
  expires_at: field(timestamp(), ({ expiresAt }) => toTimestamp(expiresAt)),
  created_at: field(timestamp(), ({ createdAt }) => toTimestamp(createdAt)),
  keys: field(
    v.array(v.object({ id: identifier("key"), mode: v.picklist(MODES), state: oneOfThese(LISTED_STATES) })),
    ({ keys }) => keys,
    `The newest key first, at most ${MAX_KEYS}`,
  ),
} as const;

/** Renders a license as JSON, for `--json` of the commands and for the API. */
export function renderLicense(license: LicenseSummary) {
  return renderFields(LICENSE_FIELDS, license);
}

/** The fields of a license in answers to operators. */
import * as v from "valibot";
import { count, fieldsOf, identifier, oneOfThese, renderFields, timestamp } from "../base/answer_fields.ts";
import { toTimestamp } from "../base/calendar.ts";
import { ALLOWANCE_FIELDS } from "./allowances.ts";
import { ENTITLEMENTS_FIELDS, type Entitled, entitlementsOf, renderEntitlements } from "./entitlements.ts";
import { FEATURES_FIELDS, type Featured, renderOwnFeatures } from "./features.ts";
import { type LicenseSummary, MAX_KEYS } from "./find_license.ts";
import { LISTED_STATES } from "./key_states.ts";
import { MODES } from "./modes.ts";
import { TERM_FIELDS } from "./terms.ts";
import { TIERS } from "./tiers.ts";
import { UPDATES_FIELDS } from "./updates.ts";

type OfLicense = Omit<LicenseSummary, "id" | "keys" | "over">;

const ofLicense = fieldsOf<OfLicense>();

/** The features and values of a license. */
export const OWN_FIELDS = { ...FEATURES_FIELDS, ...ENTITLEMENTS_FIELDS } as const;

/** The fields of a license that each of its keys has, too. */
export const SHARED_FIELDS = {
  user_id: ofLicense(identifier("usr"), ({ userId }) => userId),
  email: ofLicense(v.string(), ({ email }) => email),
  external_id: ofLicense(
    v.nullable(v.string()),
    ({ externalId }) => externalId,
    "Your own name for the license",
  ),
  tier: ofLicense(v.picklist(TIERS), ({ tier }) => tier),
  monthly_limit: ofLicense(
    v.nullable(count()),
    ({ monthlyLimit }) => monthlyLimit,
    "Inferences a month; null means unlimited",
  ),
  ...ALLOWANCE_FIELDS,
  used: ofLicense(count(), ({ used }) => used, "Inferences of this month"),
  expires_at: ofLicense(timestamp(), ({ expiresAt }) => toTimestamp(expiresAt)),
  ...TERM_FIELDS,
  ...UPDATES_FIELDS,
  ...OWN_FIELDS,
  created_at: ofLicense(timestamp(), ({ createdAt }) => toTimestamp(createdAt)),
} as const;

const field = fieldsOf<LicenseSummary>();

export const LICENSE_FIELDS = {
  id: field(identifier("lic"), ({ id }) => id),
  ...SHARED_FIELDS,
  over: field(
    count(),
    ({ over }) => over,
    "Inferences of this month that imported reports had beyond the limit",
  ),
  keys: field(
    v.array(v.object({ id: identifier("key"), mode: v.picklist(MODES), state: oneOfThese(LISTED_STATES) })),
    ({ keys }) => keys,
    `The newest key first, at most ${MAX_KEYS}`,
  ),
} as const;

/** Renders features and values as texts, for terminals and CSV, by the names of their fields. */
export function renderOwnTexts(of: Pick<OfLicense, "features" | keyof Featured | keyof Entitled>) {
  return {
    features: of.features.join(", "),
    own_features: renderOwnFeatures(of.ownFeatures),
    entitlements: renderEntitlements(entitlementsOf(of)),
    own_entitlements: renderEntitlements(of.ownEntitlements),
  };
}

/** Renders a license as JSON, for `--json` of the commands and for the API. */
export function renderLicense(license: LicenseSummary) {
  return renderFields(LICENSE_FIELDS, license);
}

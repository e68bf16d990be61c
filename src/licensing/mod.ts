/**
 * Accounts, their licenses, what each tier includes, and the brand. Owns the tables `accounts`, `licenses` and `tiers`.
 */
export { ERASED, ERASING, holdLiving, isErased, isLiving } from "./_erased_email.ts";
export { ACCOUNT_FIELDS, renderAccount, renderWithErasure } from "./account_fields.ts";
export { type AccountStanding, findStandings, MOST_STANDING } from "./account_standing.ts";
export {
  ACCOUNT_CONDITIONS,
  ACCOUNT_SORTS,
  type Account,
  countAccounts,
  findAccount,
  findAccountNamed,
  findAccountOfAudit,
  findAccountOfList,
  findEmails,
  hasAccount,
  type ListPart,
  listAccounts,
  toAccountOrder,
} from "./accounts.ts";
export {
  ALLOWANCE_FIELDS,
  ALLOWANCES,
  type Allowances,
  allowancesOf,
  allowancesOfBody,
  allowanceTypes,
  describeOfflineDays,
  describeSelfReleases,
  describeShowsMachines,
  MAX_OFFLINE_DAYS,
  PRIVILEGE_FIELDS,
  parseAllowances,
  renderAllowances,
  SELF_RELEASES,
  selectAllowances,
  YES_OR_NO,
} from "./allowances.ts";
export { type Brand, createBrand } from "./brand.ts";
export { changeLicense, FOR_ALL_KEYS, type LicenseName } from "./change_license.ts";
export {
  ENTITLEMENT_CHANGES,
  ENTITLEMENT_CHANGES_FIELD,
  type Entitled,
  type Entitlements,
  entitlementsOf,
  OWN_ENTITLEMENTS,
  OWN_ENTITLEMENTS_FIELD,
  renderEntitlements,
  valuesSchema,
} from "./entitlements.ts";
export { eraseAccount, markErasing } from "./erase_account.ts";
export { EXTERNAL_ID_UNIQUE, refuseTakenExternalId } from "./external_id.ts";
export {
  customModelsAt,
  FEATURE,
  FEATURE_CHANGES_FIELD,
  FEATURE_CONDITION,
  type FeatureChanges,
  type Featured,
  featuresAt,
  featuresChangeAt,
  featuresThrough,
  OWN_FEATURES,
  OWN_FEATURES_FIELD,
  type OwnFeatures,
  refusePastFeature,
  renderOwnFeatures,
} from "./features.ts";
export { findLicense, type LicenseSummary, MAX_KEYS } from "./find_license.ts";
export {
  KEY_STATES,
  type KeyState,
  keyEnd,
  LISTED_STATES,
  type ListedState,
  listedState,
} from "./key_states.ts";
export { createLicenseChanges, type LicenseCache, type LicenseChanges } from "./license_changes.ts";
export {
  changedValues,
  type Effect,
  effectsOf,
  type LicenseChange,
  type LicenseValues,
  placesLostBy,
  refuseEarlierEnd,
  refuseShorter,
  refuseTooMuch,
  renderBefore,
  renderEffects,
  usesUp,
  valueEffectsOf,
} from "./license_effects.ts";
export {
  LICENSE_FIELDS,
  OWN_FIELDS,
  renderLicense,
  renderOwnTexts,
  SHARED_FIELDS,
} from "./license_fields.ts";
export {
  EXPIRY,
  effectiveLimit,
  importedLicenseCtes,
  type LicenseRequest,
  licenseCtes,
  MONTHLY_LIMIT,
  nameFor,
  oneYearAfter,
  refusePastExpiry,
  renewedByDays,
  renewedByYear,
  withTerms,
} from "./licenses.ts";
export { type KeyMode, MODES } from "./modes.ts";
export { MOST_MODELS, type Move, moveLicense, renderMove } from "./move_license.ts";
export { selectKeysOfExternalId, selectNamedKeys } from "./named_keys.ts";
export { newestKeyOf } from "./newest_key.ts";
export { parseEmail } from "./parse_email.ts";
export { findKeyEnds, HINT_DIGITS, parseKeyParts } from "./parse_key_parts.ts";
export { percentUsed } from "./percent_used.ts";
export {
  describePlaces,
  isFloating,
  lacksPlaces,
  leastLimitOf,
  MAX_MACHINES,
  NEEDS_BOTH,
  type Places,
  refuseSeatsWithoutPlaces,
  SEAT_MINUTES,
} from "./places.ts";
export {
  findRenewable,
  type Renewable,
  type RenewedLicense,
  renderRenewal,
  renewAccount,
} from "./renew_account.ts";
export {
  allowsKey,
  allowsRow,
  isRestricted,
  mayJoin,
  type Reading,
  type RestrictedBy,
  type Restriction,
  refuseAccount,
  refuseNewKey,
  refuseRestricted,
  UNRESTRICTED,
} from "./restriction.ts";
export {
  SEARCH_TEXT,
  SEARCHED,
  type Search,
  searchAccounts,
  TOO_MANY_MATCH,
  TOO_WIDE,
  toSearched,
} from "./search_accounts.ts";
export { isUnstartedSql, lockUnstarted, startCtes, startTerm } from "./start_term.ts";
export {
  describeTerm,
  endIfStarted,
  endOfNew,
  findWrongEnd,
  isUnstarted,
  isWaiting,
  type NewEnd,
  planEnd,
  requestedEndOf,
  selectTerm,
  TERM_DAYS,
  TERM_FIELDS,
  type Term,
  termOf,
} from "./terms.ts";
export { ACCOUNT, ACCOUNT_CONDITION, TEXT_RULES } from "./text_rules.ts";
export {
  type ChangedTier,
  changeTier,
  findTierEntitlements,
  listTiers,
  renderChangedTier,
  renderTier,
  TIER_FIELDS,
  type TierEntitlements,
  type TierSummary,
} from "./tier_entitlements.ts";
export { featuresOf, includesTier, monthlyLimitOf, type OfflineDays, TIERS, type Tier } from "./tiers.ts";
export { refuseUnknownKey, refuseUnknownLicense, revokedReason } from "./unknown.ts";
export { updateAccount } from "./update_account.ts";
export {
  describeUpdates,
  isWithinUpdates,
  isWithinUpdatesSql,
  UPDATES_FIELDS,
  type Updates,
} from "./updates.ts";

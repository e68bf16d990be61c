/**
 * Accounts, their licenses, and what each tier includes. Owns the tables `accounts` and `licenses`.
 */
export {
  type Account,
  findAccount,
  hasAccount,
  type ListPart,
  listAccounts,
  parseEmail,
  updateAccount,
} from "./accounts.ts";
export { type ChangedLicense, changeLicense, type LicenseChange } from "./change_license.ts";
export { eraseAccount } from "./erase_account.ts";
export {
  effectiveLimit,
  importedLicenseCtes,
  type LicenseRequest,
  licenseCtes,
  NEVER_EXPIRES,
  oneYearAfter,
} from "./licenses.ts";
export { allowsMode, allowsTier, isRestricted, type Restriction } from "./restriction.ts";
export { MAX_SEARCHED, type Search, searchAccounts } from "./search_accounts.ts";
export { featuresOf, includesTier, monthlyLimitOf, TIERS, type Tier } from "./tiers.ts";
export { REVOKED, refuseUnknownKey } from "./unknown_key.ts";

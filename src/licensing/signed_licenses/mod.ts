/**
 * Signed licenses, which clients verify without a network: the signing keys, the signatures, and the notes of signed
 * licenses. Owns the tables `signing_keys`, `signed_licenses` and `exported_licenses`.
 */

export { checkLicense, isTime } from "./check_license.ts";
export { parseJwks, toJwk, toPem, type Verified, verifySignature } from "./jws.ts";
export { LICENSE_FILE_LIMIT_BYTES, parseLicenseFile, renderExport } from "./license_file.ts";
export { MOST_EXPORT_DAYS, USUAL_EXPORT_DAYS } from "./note_license.ts";
export { listOutstanding, type OutstandingLicense } from "./outstanding.ts";
export { createPublishedKeys, type PublishedKeys } from "./published_keys.ts";
export { createReportKeys, type ReportKeys } from "./report_key.ts";
export {
  createLicenseSigner,
  type LicenseSigner,
  NONCE,
  SIGNED_DAYS,
  SIGNED_FINGERPRINT,
} from "./sign_license.ts";
export {
  ensureSigningKeys,
  listSigningKeys,
  openSigningKey,
  prepareSigningKeys,
  retireSigningKey,
  rotateSigningKey,
} from "./signing_keys.ts";

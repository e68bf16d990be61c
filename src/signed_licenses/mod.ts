/**
 * Signed licenses, which clients verify without a network: the signing keys, the signatures, and the notes of signed
 * licenses. Owns the tables `signing_keys`, `signed_licenses` and `exported_licenses`.
 */

export { type Checked, checkLicense, isTime } from "./check_license.ts";
export { type PublicJwk, parseJwks, toJwk, toPem, type Verified, verifySignature } from "./jws.ts";
export {
  type ExportedLicense,
  LICENSE_FILE_LIMIT_BYTES,
  parseLicenseFile,
  renderExport,
} from "./license_file.ts";
export type { ExportRequest, LicenseRequest } from "./note_license.ts";
export { listOutstanding, type OutstandingLicense } from "./outstanding.ts";
export { prepareSigningKeys } from "./prepare_signing_keys.ts";
export { createPublishedKeys, type PublishedKeys } from "./published_keys.ts";
export {
  createLicenseSigner,
  EXPORT_DAYS,
  type LicenseClaims,
  type LicenseSigner,
  type LicenseSignerOptions,
  NOT_OFFLINE,
  type SignedLicense,
} from "./sign_license.ts";
export {
  ensureSigningKeys,
  listSigningKeys,
  openSigningKey,
  type Retirement,
  type Rotation,
  retireSigningKey,
  rotateSigningKey,
  type SigningKey,
  type SigningKeyState,
} from "./signing_keys.ts";

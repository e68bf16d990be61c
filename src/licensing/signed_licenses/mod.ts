/**
 * Signed licenses, which clients verify without a network, and the manifests of bundles with them: the signing keys, the
 * signatures, and the notes of signed licenses. Owns the tables `signing_keys`, `signed_licenses` and `exported_licenses`.
 */

export {
  type BundledFile,
  isLicenseOf,
  LICENSE_PATH,
  MANIFEST_PATH,
  type Manifest,
  MOST_BUNDLED_FILES,
  verifyManifest,
} from "./bundle_manifest.ts";
export { type Checked, checkLicense, isTime } from "./check_license.ts";
export {
  describeLongExport,
  endOfExported,
  type ForeseenMachine,
  foreseeExport,
  mostExportDays,
} from "./foresee_export.ts";
export type { ForeseenLicense } from "./foresee_next.ts";
export { MOST_CHARACTERS, parseJwks, toJwk, toPem, type Verified, verifySignature } from "./jws.ts";
export { LICENSE_FILE_LIMIT_BYTES, parseLicenseFile, renderExport } from "./license_file.ts";
export { type ExportRequest, MOST_EXPORT_DAYS, USUAL_EXPORT_DAYS } from "./note_license.ts";
export { listOutstanding, type OutstandingLicense } from "./outstanding.ts";
export { createPublishedKeys, type PublishedKeys } from "./published_keys.ts";
export { describeFiles, describeRemains, listFilesOf } from "./remains.ts";
export { createReportKeys, type ReportKeys, withoutReportKey } from "./report_key.ts";
export {
  createLicenseSigner,
  DAYS_BY_DEFAULT,
  EXPORTED_FINGERPRINT,
  type LicenseSigner,
  NONCE,
  SIGNED_DAYS,
  SIGNED_FINGERPRINT,
  type SignedLicense,
} from "./sign_license.ts";
export {
  ensureSigningKeys,
  listSigningKeys,
  openSigningKey,
  prepareSigningKeys,
  retireSigningKey,
  rotateSigningKey,
} from "./signing_keys.ts";

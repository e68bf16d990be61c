/**
 * Signed licenses, which clients verify without a network: the signing keys, the signatures, and the notes of what was
 * signed. Owns the tables `signing_keys`, `signed_licenses` and `exported_licenses`.
 */
export { type PublicJwk, toJwk, toPem, type Verified, verifySignature } from "./jws.ts";
export { createPublishedKeys, type PublishedKeys } from "./published_keys.ts";
export {
  createLicenseSigner,
  type ExportRequest,
  type LicenseClaims,
  type LicenseRequest,
  type LicenseSigner,
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

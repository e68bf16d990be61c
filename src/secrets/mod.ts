/**
 * What keeps secrets secret: one root secret, sealed boxes made with it, and the blanking of keys.
 *
 * Pure: where the root secret and the boxes are stored is for others to know.
 */
export { opensCanary, sealCanary } from "./canary.ts";
export { redactKeys, redactKeysInEvent, redactQuery, renderWithoutKeys } from "./redact.ts";
export type { RootSecret } from "./root_secret.ts";
export { generateRootSecret, type ParsedRootSecret, parseRootSecret } from "./root_secret.ts";
export { createSecrets, type Secrets } from "./sealed_box.ts";
export type { Signer } from "./signature.ts";

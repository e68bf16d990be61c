/**
 * The root secret, sealed boxes and signatures made with it, and the removal of keys from text.
 *
 * Pure: other rooms store the root secret and the boxes.
 */
export { opensCanary, sealCanary } from "./canary.ts";
export {
  hasKey,
  KEY_DIGITS,
  KEY_KINDS,
  KEY_LIKE_DIGITS,
  mayBeSecret,
  NO_KEY_PATTERN,
  redactKeys,
  redactKeysInEvent,
  redactQuery,
  renderWithoutKeys,
} from "./redact.ts";
export type { RootSecret } from "./root_secret.ts";
export { generateRootSecret, parseRootSecret } from "./root_secret.ts";
export { createSecrets, type Secrets } from "./sealed_box.ts";
export type { Signer } from "./signature.ts";

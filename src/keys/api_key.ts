/**
 * The API key: `svc_live_` or `svc_test_` and 48 lowercase hexadecimal digits, which are 192 random bits.
 *
 * Only the SHA-256 and a hint of a key are stored. Nobody can try 2^192 keys, so the hash needs no salt and no
 * stretching. Without a salt, one index is enough to find a key.
 */

import { hash, randomBytes } from "node:crypto";
import type { Brand } from "../brand.ts";
import { type KeyMode, MODES } from "../licensing/mod.ts";

/** How many hexadecimal digits a key has after its prefix. */
const DIGITS = 48;

export interface NewApiKey {
  /** The key itself. Show it once: it is not stored. */
  readonly apiKey: string;
  /** SHA-256, 64 lowercase hexadecimal digits. */
  readonly hash: string;
  readonly hint: string;
}

/** Generates a key of a mode from the system's random source, or from other random bytes: 24 or more. */
export function generateApiKey(
  brand: Brand,
  mode: KeyMode,
  { bytes = randomBytes(DIGITS / 2) }: { readonly bytes?: Buffer } = {},
): NewApiKey {
  const apiKey = `${brand.name}_${mode}_${bytes.toString("hex").slice(0, DIGITS)}`;
  return { apiKey, hash: hashApiKey(apiKey), hint: toHint(apiKey) };
}

/** Returns the pattern of a brand's keys: no white space, no uppercase digits, no text before or after the key. */
export function keyPattern(brand: Brand): RegExp {
  return new RegExp(`^${brand.name}_(${MODES.join("|")})_[0-9a-f]{${DIGITS}}$`);
}

/** Describes this pattern in a refusal: `svc_live_ or svc_test_ and 48 lowercase hexadecimal digits`. */
export function keyForm({ name }: Brand): string {
  const prefixes = MODES.map((mode) => `${name}_${mode}_`).join(" or ");
  return `${prefixes} and ${DIGITS} lowercase hexadecimal digits`;
}

/** Returns the SHA-256 of a key: 64 lowercase hexadecimal digits. */
export function hashApiKey(apiKey: string): string {
  return hash("sha256", apiKey, "hex");
}

/** Returns the mode of a well-formed key. */
export function modeOf(apiKey: string): KeyMode {
  return apiKey.slice(0, -DIGITS).endsWith("_live_") ? "live" : "test";
}

/** Returns the prefix and the last four characters of a key, by which people recognise it. */
export function toHint(apiKey: string): string {
  return `${apiKey.slice(0, -DIGITS)}…${apiKey.slice(-4)}`;
}

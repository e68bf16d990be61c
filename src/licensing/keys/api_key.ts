/**
 * The API key: `svc_live_` or `svc_test_` and 48 lowercase hexadecimal digits, which are 192 random bits.
 *
 * Only the SHA-256 and a hint of a key are stored. The hint has 8 of the 48 digits. Nobody can try 2^160 keys, so the
 * hash needs no salt and no stretching. Without a salt, one index is enough to find a key.
 */

import { hash, randomBytes } from "node:crypto";
import { KEY_DIGITS } from "../../base/secrets/mod.ts";
import type { Brand } from "../mod.ts";
import { HINT_DIGITS, type KeyMode, MODES } from "../mod.ts";

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
  { bytes = randomBytes(KEY_DIGITS / 2) }: { readonly bytes?: Buffer } = {},
): NewApiKey {
  const apiKey = `${brand.name}_${mode}_${bytes.toString("hex").slice(0, KEY_DIGITS)}`;
  return { apiKey, hash: hashApiKey(apiKey), hint: toHint(apiKey) };
}

/** Returns the pattern of a brand's keys: no white space, no uppercase digits, no text before or after the key. */
export function keyPattern(brand: Brand): RegExp {
  return new RegExp(`^${brand.name}_(${MODES.join("|")})_[0-9a-f]{${KEY_DIGITS}}$`);
}

/** Describes this pattern in a refusal: `svc_live_ or svc_test_ and 48 lowercase hexadecimal digits`. */
export function keyForm({ name }: Brand): string {
  const prefixes = MODES.map((mode) => `${name}_${mode}_`).join(" or ");
  return `${prefixes} and ${KEY_DIGITS} lowercase hexadecimal digits`;
}

/** Returns the SHA-256 of a key: 64 lowercase hexadecimal digits. */
export function hashApiKey(apiKey: string): string {
  return hash("sha256", apiKey, "hex");
}

/** Returns the mode of a well-formed key. */
export function modeOf(apiKey: string): KeyMode {
  return apiKey.slice(0, -KEY_DIGITS).endsWith("_live_") ? "live" : "test";
}

/** Returns the prefix, the first and the last characters of a key, by which people recognise it: `svc_live_ab12…6442`. */
export function toHint(apiKey: string): string {
  return `${apiKey.slice(0, HINT_DIGITS - KEY_DIGITS)}…${apiKey.slice(-HINT_DIGITS)}`;
}

/** Returns the keys that a text may contain: with their prefix, or only their digits, which can be those of each mode. */
export function findKeysIn(text: string, { name }: Brand): string[] {
  const form = new RegExp(
    `(?:${name}_(${MODES.join("|")})_|(?<![0-9a-f]))([0-9a-f]{${KEY_DIGITS}})(?![0-9a-f])`,
    "gi",
  );
  return [...text.matchAll(form)].flatMap(([, mode, digits = ""]) =>
    (mode === undefined ? MODES : [mode]).map((each) => `${name}_${each}_${digits}`.toLowerCase()),
  );
}

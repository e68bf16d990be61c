/**
 * The key itself: `svc_live_` or `svc_test_` and 48 lowercase hexadecimal digits, 192 random bits.
 *
 * Only its SHA-256 goes any further. A hash without salt or stretching is enough here, because nobody can
 * try 2^192 keys; and it is what lets one index find a key.
 */
import { hash, randomBytes } from "node:crypto";
import type { Brand } from "../brand.ts";

export type KeyMode = "live" | "test";

export interface NewApiKey {
  /** To be shown once. */
  readonly apiKey: string;
  /** SHA-256, 64 lowercase hexadecimal digits. */
  readonly hash: string;
  readonly hint: string;
}

/** Makes a key of that mode from the system's random source. */
export function generateApiKey(brand: Brand, mode: KeyMode): NewApiKey {
  const apiKey = `${brand.name}_${mode}_${randomBytes(24).toString("hex")}`;
  return { apiKey, hash: hashApiKey(apiKey), hint: toHint(apiKey) };
}

/** The pattern of a brand's keys: no trimming, no uppercase, nothing before or after. */
export function keyPattern(brand: Brand): RegExp {
  return new RegExp(`^${brand.name}_(live|test)_[0-9a-f]{48}$`);
}

/** The SHA-256 of a key: 64 lowercase hexadecimal digits. */
export function hashApiKey(apiKey: string): string {
  return hash("sha256", apiKey, "hex");
}

/** The mode that a well-formed key names. */
export function modeOf(apiKey: string): KeyMode {
  return apiKey.slice(0, -48).endsWith("_live_") ? "live" : "test";
}

/** What people recognise a key by: prefix and last four characters. */
export function toHint(apiKey: string): string {
  return `${apiKey.slice(0, -48)}…${apiKey.slice(-4)}`;
}

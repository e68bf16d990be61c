/** Random texts that let somebody in: tokens, login codes, cookies. Only their SHA-256 is stored. */
import { createHash, randomBytes } from "node:crypto";

/** Generates lowercase hexadecimal digits from the system's random source. */
export function randomDigits(bits: number): string {
  return randomBytes(bits / 8).toString("hex");
}

/**
 * Returns the SHA-256 of a text as PostgreSQL reads bytes. A hash without salt or stretching is enough, because nobody
 * can try 2^128 texts.
 */
export function hashOf(text: string): string {
  return `\\x${createHash("sha256").update(text).digest("hex")}`;
}

/**
 * The root secret, which the operator keeps. Every other key is derived from it.
 *
 * The secret is a key object of `node:crypto`, which shows no content when it is printed, logged or turned
 * into JSON.
 *
 * The tests for low quality reject typed phrases and accept random bytes: a generated secret fails one of
 * them with a probability below one in a billion.
 */
import { createSecretKey, type KeyObject, randomBytes } from "node:crypto";

export type RootSecret = KeyObject;

type ParsedRootSecret =
  | { readonly ok: true; readonly rootSecret: RootSecret }
  | { readonly ok: false; readonly error: string };

const MIN_BYTES = 32;
const MAX_CHARACTERS = 1024;

/** The number of different values among 32 random bytes: 30 on average, practically never 16 or fewer. */
const MIN_DISTINCT = 17;

/**
 * Reads a root secret of at least 32 bytes. It is written as 64 or more hexadecimal digits, or as base64 or base64url
 * with or without padding, in at most 1,024 characters on one line. White space around it is dropped. Text of
 * hexadecimal digits alone is never read as base64.
 *
 * The error says what is wrong and contains nothing of the text.
 */
export function parseRootSecret(text: string): ParsedRootSecret {
  const bytes = decode(text.trim());
  if (typeof bytes === "string") return { ok: false, error: bytes };
  const weakness = findWeakness(bytes);
  return weakness === undefined
    ? { ok: true, rootSecret: createSecretKey(bytes) }
    : { ok: false, error: weakness };
}

/** Generates a root secret as the text of its file: 64 hexadecimal digits and a newline. */
export function generateRootSecret(): string {
  return `${randomBytes(MIN_BYTES).toString("hex")}\n`;
}

function decode(text: string): Buffer | string {
  if (text === "") return "it is empty";
  if (text.length > MAX_CHARACTERS) return `it has more than ${MAX_CHARACTERS} characters`;
  if (/\s/.test(text)) return "it has white space inside; it must be one line without spaces";
  if (/^[0-9a-fA-F]+$/.test(text)) {
    if (text.length < 2 * MIN_BYTES) return TOO_SHORT;
    return text.length % 2 === 0 ? Buffer.from(text, "hex") : "it has an odd number of hexadecimal digits";
  }
  const unpadded = text.replace(/={1,2}$/, "");
  const encoding = (["base64", "base64url"] as const).find(
    (name) => Buffer.from(unpadded, name).toString(name).replaceAll("=", "") === unpadded,
  );
  const hasWrongPadding = text !== unpadded && text.length % 4 !== 0;
  if (encoding === undefined || hasWrongPadding) return "it is neither hexadecimal nor valid base64";
  const bytes = Buffer.from(unpadded, encoding);
  if (bytes.length < MIN_BYTES) return TOO_SHORT;
  // Random base64 of this length has letters of both cases; a typed phrase usually does not.
  return /[a-z]/.test(unpadded) && /[A-Z]/.test(unpadded) ? bytes : TOO_REGULAR;
}

function findWeakness(bytes: Buffer): string | undefined {
  const steps = bytes.map((byte, i) => byte - (bytes[i - 1] ?? 0));
  if (new Set(bytes).size < MIN_DISTINCT || new Set(steps).size < MIN_DISTINCT) return TOO_REGULAR;
  if (bytes.every((byte) => byte >= 0x20 && byte < 0x7f)) {
    return "it stands for readable text instead of random bytes";
  }
  return undefined;
}

const TOO_SHORT = `it has fewer than ${MIN_BYTES} bytes, which are ${2 * MIN_BYTES} hexadecimal digits`;
const TOO_REGULAR = "it is too regular to be random; `openssl rand -hex 32` makes a good one";

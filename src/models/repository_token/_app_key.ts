/** Reads and parses the private key of a GitHub App, once at the start of the service. */
import { createPrivateKey, type KeyObject } from "node:crypto";
import { readRegularFile } from "../../base/read_regular_file.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import { NAMED_FILE_REASONS, type Reasons, reasonOf } from "../../base/system_error.ts";

/** A key of 8,192 bits takes 6.5 KB. */
const LIMIT_BYTES = 16 * 1024;
const MIN_BITS = 2_048;
/** With a longer key, a signature takes too long. */
const MAX_BITS = 8_192;

/**
 * Reads an RSA private key in PEM: PKCS#1, the format of GitHub, or PKCS#8, without a passphrase. The refusal names
 * the file and never its content.
 */
export function readAppKey(path: string): KeyObject | Refusal {
  let pem: string;
  try {
    pem = readRegularFile(path, LIMIT_BYTES);
  } catch (error) {
    return cannotUse(path, reasonOf(error, REASONS));
  }
  if (/-----BEGIN ENCRYPTED |^Proc-Type: 4,ENCRYPTED/m.test(pem)) {
    return cannotUse(path, "it is encrypted; remove its passphrase with `openssl rsa`");
  }
  // Node accepts more kinds of keys, and its error about a public key does not explain the cause.
  if (!/-----BEGIN (RSA )?PRIVATE KEY-----/.test(pem)) {
    return cannotUse(
      path,
      "it must hold a line -----BEGIN RSA PRIVATE KEY----- or -----BEGIN PRIVATE KEY-----",
    );
  }
  const key = parseKey(pem);
  if (key === undefined)
    return cannotUse(path, "the key in it is damaged; download it again, or create another key");
  const bits = key.asymmetricKeyDetails?.modulusLength ?? 0;
  if (key.asymmetricKeyType !== "rsa") return cannotUse(path, "the key in it must be an RSA key");
  if (bits < MIN_BITS || bits > MAX_BITS) {
    return cannotUse(path, `the key in it must have from ${MIN_BITS} to ${MAX_BITS} bits, not ${bits}`);
  }
  return key;
}

function parseKey(pem: string): KeyObject | undefined {
  try {
    return createPrivateKey(pem);
  } catch {
    return undefined; // The error is about ASN.1 and may contain parts of the key.
  }
}

function cannotUse(path: string, why: string): Refusal {
  return refuse("INVALID_REQUEST", `Cannot use the GitHub App's private key ${path}: ${why}`);
}

const NO_FILE = `it must be a file of at most ${LIMIT_BYTES} bytes`;

const REASONS: Reasons = {
  ...NAMED_FILE_REASONS,
  EISDIR: NO_FILE,
  ENOTREG: NO_FILE,
  ENXIO: NO_FILE,
  EFBIG: NO_FILE,
};

/**
 * The certificate of the service and its key. Both files are read and checked together, so that a pair that
 * cannot work is refused with a reason before a client connects.
 */
import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { DAY_MS, toTimestamp } from "../calendar.ts";
import type { TlsPair } from "../platform/mod.ts";
import { CERTIFICATES_LIMIT_BYTES, readRegularFile } from "../read_regular_file.ts";
import { isRefusal, type Refusal, refuse } from "../refusal.ts";
import { FILE_REASONS, type Reasons, reasonOf } from "../system_error.ts";

/** The paths of the two files; absolute. */
export interface TlsFiles {
  /** PEM: the certificate first, then the certificates that lead to a root. */
  readonly certFile: string;
  /** PEM, without a passphrase. */
  readonly keyFile: string;
  /** True for credentials: systemd copies them only when the service starts, so a reload cannot read a renewed file. */
  readonly isCopy?: true | undefined;
}

export interface LoadedCertificate extends TlsPair {
  readonly validFrom: Date;
  readonly expiresAt: Date;
  /** SHA-256, as `openssl x509 -fingerprint -sha256` prints it. */
  readonly fingerprint: string;
}

/** The warning begins this long before the certificate expires. */
const RENEWAL_DAYS = 14;

/** Reads both files. Refuses files that are unreadable, are not PEM, or do not belong together. */
export function loadCertificate({ certFile, keyFile }: TlsFiles): LoadedCertificate | Refusal {
  const certificate = readText(certFile, "certificate");
  if (isRefusal(certificate)) return certificate;
  const privateKey = readText(keyFile, "key");
  if (isRefusal(privateKey)) return privateKey;
  const leaf = parseChain(certificate);
  if (leaf === undefined) return refused(`the file ${certFile} is no certificate in PEM form`);
  const key = parseKey(privateKey);
  if (typeof key === "string") return refused(`the file ${keyFile} ${key}`);
  if (!leaf.checkPrivateKey(key)) {
    return refused(`the key ${keyFile} does not belong to the first certificate in ${certFile}`);
  }
  return {
    certificate,
    privateKey,
    validFrom: new Date(leaf.validFrom),
    expiresAt: new Date(leaf.validTo),
    fingerprint: leaf.fingerprint256,
  };
}

/** Returns why clients refuse the certificate now or will refuse it soon; undefined if they accept it. */
export function tlsWarning(
  { validFrom, expiresAt }: Pick<LoadedCertificate, "validFrom" | "expiresAt">,
  now: Date,
): string | undefined {
  if (expiresAt <= now) return `The certificate expired at ${toTimestamp(expiresAt)}: clients refuse it`;
  if (validFrom > now)
    return `The certificate is valid only from ${toTimestamp(validFrom)}: clients refuse it until then`;
  const leftDays = Math.floor((expiresAt.getTime() - now.getTime()) / DAY_MS);
  return leftDays < RENEWAL_DAYS
    ? `The certificate expires at ${toTimestamp(expiresAt)}, in ${leftDays === 1 ? "1 day" : `${leftDays} days`}`
    : undefined;
}

/** Returns the first certificate if every certificate in the text can be read. */
function parseChain(text: string): X509Certificate | undefined {
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  try {
    return blocks.map((block) => new X509Certificate(block))[0];
  } catch {
    return undefined;
  }
}

/** Returns the key, or why the file cannot be used. The reason contains nothing of the file. */
function parseKey(text: string): KeyObject | string {
  if (/ENCRYPTED/.test(text)) return "has a passphrase, which nobody could enter: give a key without one";
  try {
    return createPrivateKey(text);
  } catch {
    return "is no private key in PEM form";
  }
}

function readText(path: string, what: string): string | Refusal {
  try {
    return readRegularFile(path, CERTIFICATES_LIMIT_BYTES);
  } catch (error) {
    return refused(`the ${what} ${path}: ${reasonOf(error, REASONS)}`);
  }
}

const REASONS: Reasons = {
  ...FILE_REASONS,
  EFBIG: `it has more than ${CERTIFICATES_LIMIT_BYTES} bytes`,
  EACCES:
    "this user may not read it; let the service's user read it, or hand it over as a credential (see `claviger systemd --help`)",
};

function refused(why: string): Refusal {
  return refuse("INVALID_REQUEST", `Cannot use TLS: ${why}`);
}

/** Error codes of the operating system, and their sentences. */

/** Sentences by error code. A caller spreads one of the tables below, and adds or replaces sentences. */
export type Reasons = Readonly<Record<string, string>>;

/** Returns the system's code of an error, such as `EACCES`; undefined if it has none. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}

/** Tells whether the error has this code of the system. */
export function hasCode(error: unknown, code: string): boolean {
  return codeOf(error) === code;
}

/** Returns why something failed: the sentence for the error's code, otherwise the error's own message. */
export function reasonOf(error: unknown, reasons: Reasons = {}): string {
  const code = codeOf(error) ?? "";
  return reasons[code] ?? (error instanceof Error ? error.message || code : String(error));
}

/** Why a file cannot be read. */
export const FILE_REASONS = {
  ENOENT: "there is no such file",
  ENOTDIR: "there is no such file",
  EISDIR: "it is a folder",
  // Our own code: see read_regular_file.ts.
  ENOTREG: "it is no regular file",
  ENXIO: "it is no regular file",
  EFBIG: "it is too large",
  EACCES: "this user may not read it",
} as const satisfies Reasons;

/** Why the service cannot read a file that a setting names. */
export const NAMED_FILE_REASONS = {
  ...FILE_REASONS,
  EACCES: "this user may not read it; let the service's user read it (`chgrp claviger FILE; chmod 640 FILE`)",
} as const satisfies Reasons;

/** Why a server cannot be reached. */
export const NETWORK_REASONS = {
  ECONNREFUSED: "nothing listens there",
  ECONNRESET: "it closed the connection",
  EHOSTUNREACH: "no network leads there",
  ENETUNREACH: "no network leads there",
  ETIMEDOUT: "it does not answer",
  ENOTFOUND: "there is no host of that name",
  EAI_AGAIN: "its name cannot be looked up",
} as const satisfies Reasons;

/** Returns the sentences for a certificate that no trusted authority signed: `sentence` says so, with the remedy. */
export function whenNotTrusted(sentence: string): Reasons {
  return {
    DEPTH_ZERO_SELF_SIGNED_CERT: sentence,
    SELF_SIGNED_CERT_IN_CHAIN: sentence,
    UNABLE_TO_GET_ISSUER_CERT: sentence,
    UNABLE_TO_GET_ISSUER_CERT_LOCALLY: sentence,
    UNABLE_TO_VERIFY_LEAF_SIGNATURE: sentence,
  };
}

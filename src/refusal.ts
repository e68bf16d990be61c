/**
 * A refusal: the value that a function returns in place of its result if a request is understood but not granted.
 *
 * Refusals are expected, so they are values; exceptions are for unexpected errors. The code is for programs
 * (`http/error_response.ts` turns it into a status). The sentence is for people and never contains a key or a token.
 */

/** The codes of the contract (`MISSING_KEY` … `NOT_CONFIGURED`), and the codes that Claviger adds. */
export type Code =
  | "MISSING_KEY"
  | "INVALID_FORMAT"
  | "MISSING_EVENT_TYPE"
  | "INVALID_KEY"
  | "KEY_EXPIRED"
  | "KEY_NOT_FOUND"
  | "METHOD_NOT_ALLOWED"
  | "QUOTA_EXCEEDED"
  | "RATE_LIMIT_EXCEEDED"
  | "SERVER_ERROR"
  | "NOT_CONFIGURED"
  | "INVALID_REQUEST"
  | "INVALID_LINK"
  | "LICENSE_REQUIRED"
  | "NOT_FOUND"
  | "PAYLOAD_TOO_LARGE"
  | "RANGE_NOT_SATISFIABLE"
  | "UNSUPPORTED_MEDIA_TYPE"
  | "SERVICE_UNAVAILABLE"
  /** Clients get it as `INVALID_REQUEST` with a different status. */
  | "CLAIM_MISMATCH";

/** Why a key is refused. Only operators see the reason; clients get the code. */
export type KeyFlaw = "unknown" | "suspended" | "revoked" | "expired";

/** What some refusals have in addition to their sentence. */
export interface RefusalDetails {
  readonly retryAfterSeconds?: number;
  readonly reason?: KeyFlaw;
}

export class Refusal {
  readonly code: Code;
  readonly sentence: string;
  /** When to try again, if the code does not tell whether that can help. */
  readonly retryAfterSeconds: number | undefined;
  readonly reason: KeyFlaw | undefined;

  constructor(code: Code, sentence: string, { retryAfterSeconds, reason }: RefusalDetails = {}) {
    this.code = code;
    this.sentence = sentence;
    this.retryAfterSeconds = retryAfterSeconds;
    this.reason = reason;
  }
}

/** Creates a refusal: `return refuse("INVALID_REQUEST", "metadata must be an object")`. */
export function refuse(code: Code, sentence: string, details?: RefusalDetails): Refusal {
  return new Refusal(code, sentence, details);
}

/** Tells whether a value is a refusal. */
export function isRefusal(value: unknown): value is Refusal {
  return value instanceof Refusal;
}

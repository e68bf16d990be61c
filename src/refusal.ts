/**
 * A refusal: what a function returns instead of its result when a request is understood and not granted.
 *
 * Refusals are expected and are values; an exception is for what nobody expected. The code is for
 * machines (`http/error_response.ts` turns it into a status), the sentence is for people and never holds a
 * key or a token.
 */

/** The codes of the contract (`MISSING_KEY` … `NOT_CONFIGURED`) and ours beyond its table. */
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
  /** On the wire it is `INVALID_REQUEST`, under a status of its own. */
  | "CLAIM_MISMATCH";

/** Why a key is refused: for operators alone, since clients learn no more than the code. */
export type KeyFlaw = "unknown" | "suspended" | "revoked" | "expired";

/** What some refusals say beside their sentence. */
export interface RefusalDetails {
  readonly retryAfterSeconds?: number;
  readonly reason?: KeyFlaw;
}

export class Refusal {
  readonly code: Code;
  readonly sentence: string;
  /** When to try again, where the code alone does not say whether that can help. */
  readonly retryAfterSeconds: number | undefined;
  readonly reason: KeyFlaw | undefined;

  constructor(code: Code, sentence: string, { retryAfterSeconds, reason }: RefusalDetails = {}) {
    this.code = code;
    this.sentence = sentence;
    this.retryAfterSeconds = retryAfterSeconds;
    this.reason = reason;
  }
}

/** Makes a refusal: `return refuse("INVALID_REQUEST", "metadata must be an object")`. */
export function refuse(code: Code, sentence: string, details?: RefusalDetails): Refusal {
  return new Refusal(code, sentence, details);
}

/** Tells a refusal from a result. */
export function isRefusal(value: unknown): value is Refusal {
  return value instanceof Refusal;
}

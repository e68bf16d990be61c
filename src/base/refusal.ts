/**
 * A refusal: the value that a function returns in place of its result if a request is understood but not granted.
 *
 * Refusals are expected, so they are values; exceptions are for unexpected errors. The code is for programs
 * (`wire/error_response.ts` turns it into a status). The sentence is for people and never contains a key or a token.
 */
import { type Remedy, WORDS } from "./remedy.ts";

/** Every code. */
export type Code = ClientCode | OperatorCode | CommandCode;

/** The codes for clients: those of the contract (`MISSING_KEY` … `NOT_CONFIGURED`), and those that Claviger adds. */
export type ClientCode =
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
  | "PRECONDITION_FAILED"
  | "PAYLOAD_TOO_LARGE"
  | "RANGE_NOT_SATISFIABLE"
  | "UNSUPPORTED_MEDIA_TYPE"
  /** The client sends its body only after a `100 Continue`, which the runtime does not send for its spelling of `Expect`. */
  | "EXPECTATION_FAILED"
  /** The cause can pass by itself: a client is to try again, and `serve` is to be started again. */
  | "SERVICE_UNAVAILABLE"
  /** The license, or every license of its tier, is not signed for use without a network. */
  | "OFFLINE_NOT_ALLOWED"
  /** Every place for machines of the license is taken. */
  | "MACHINE_LIMIT_REACHED"
  /** Clients have released as many machines by their ids as the license allows. */
  | "RELEASE_LIMIT_REACHED"
  /** The machine holds no place of the license. */
  | "MACHINE_NOT_FOUND"
  /** Clients get it as `INVALID_REQUEST` with a different status. */
  | "CLAIM_MISMATCH";

/** The codes that only operators get, besides the codes for clients. */
export type OperatorCode =
  | "INVALID_TOKEN"
  | "SCOPE_REQUIRED"
  /** A token may not do this with that tier, mode or limit, or from that address. */
  | "NOT_ALLOWED"
  | "ALREADY_EXISTS"
  /** The state of the key, license, account or model does not allow the change. */
  | "CONFLICT"
  | "CURSOR_EXPIRED"
  /** The request is for another host. */
  | "MISDIRECTED_REQUEST";

/** The code that only commands get: the data of the installation is lost or damaged, or may be, and a restore helps. */
type CommandCode = "DATA_LOST";

/** Why a key is refused. Only operators see the reason; clients get the code. */
export type KeyFlaw = "unknown" | "suspended" | "revoked" | "expired";

/** The facts that some refusals have in addition to their sentence. */
interface RefusalDetails {
  readonly retryAfterSeconds?: number | undefined;
  readonly reason?: KeyFlaw | undefined;
  /** The fields of the request that are wrong, each with a sentence. */
  readonly fields?: readonly WrongField[] | undefined;
  /** The identifier of the thing that exists already, such as `lic_…`. */
  readonly id?: string | undefined;
  /** The places for machines of the license: how many there are, and how many are taken. */
  readonly machines?: { readonly limit: number; readonly used: number } | undefined;
  readonly remedy?: Remedy | undefined;
}

/** Why a change is refused, without the change. */
export interface Reason {
  readonly why: string;
  readonly remedy?: Remedy;
}

export interface WrongField {
  readonly field: string;
  readonly error: string;
  /** The error in a form, where the name of the field stands above it; by default `error`. */
  readonly hint?: string;
}

export class Refusal {
  readonly code: Code;
  readonly sentence: string;
  /** The sentence without the words of the remedy. */
  readonly stem: string;
  readonly remedy: Remedy | undefined;
  /** After how many seconds to try again. For a code that alone does not say whether trying again helps. */
  readonly retryAfterSeconds: number | undefined;
  readonly reason: KeyFlaw | undefined;
  readonly fields: readonly WrongField[] | undefined;
  readonly id: string | undefined;
  readonly machines: RefusalDetails["machines"] | undefined;

  constructor(code: Code, stem: string, details: RefusalDetails = {}) {
    const { retryAfterSeconds, reason, fields, id, machines, remedy } = details;
    const words = remedy && WORDS[remedy.name];
    this.code = code;
    this.sentence = words === undefined ? stem : `${stem}; ${words}`;
    this.stem = stem;
    this.remedy = remedy;
    this.retryAfterSeconds = retryAfterSeconds;
    this.reason = reason;
    this.fields = fields;
    this.id = id;
    this.machines = machines;
  }
}

/**
 * Creates a refusal. The words of its remedy end its sentence.
 *
 * @example
 * ```ts
 * const refusal = refuse("INVALID_REQUEST", "metadata must be an object");
 * isRefusal(refusal); // true
 * ```
 */
export function refuse(code: Code, stem: string, details?: RefusalDetails): Refusal {
  return new Refusal(code, stem, details);
}

/** Returns the refusal with more to its sentence, before the words of the remedy. */
export function addToRefusal({ code, stem, ...details }: Refusal, more: string): Refusal {
  return new Refusal(code, `${stem}; ${more}`, details);
}

/** Refuses a request because its sender has sent too many in a minute. */
export function refuseTooMany(details?: Pick<RefusalDetails, "retryAfterSeconds">): Refusal {
  return refuse("RATE_LIMIT_EXCEEDED", "Too many requests: wait as Retry-After says", details);
}

/** Tells whether a value is a refusal. */
export function isRefusal(value: unknown): value is Refusal {
  return value instanceof Refusal;
}

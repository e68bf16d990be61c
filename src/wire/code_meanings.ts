/** What each code for clients means: the documents, the console and the commands take it from here. */
import type { ClientCode } from "../base/refusal.ts";
import { BATCH_LIMIT_BYTES, BODY_LIMIT_BYTES } from "./read_body.ts";

const MEANINGS: Readonly<Record<ClientCode, string>> = {
  MISSING_KEY: "the request carries no key",
  INVALID_FORMAT: "the key is malformed",
  MISSING_EVENT_TYPE: "the event has no type",
  INVALID_REQUEST: "a field has a value that is not allowed",
  INVALID_KEY: "the key is unknown, suspended or revoked",
  INVALID_LINK: "the download link has expired or was altered",
  KEY_EXPIRED: "the license or the key has expired",
  LICENSE_REQUIRED: "the model requires a higher tier, or the license has no updates for its version",
  OFFLINE_NOT_ALLOWED: "this license, or every license of its tier, is not signed for use without a network",
  MACHINE_LIMIT_REACHED: "every place for machines of the license is taken",
  RELEASE_LIMIT_REACHED: "as many machines were released by their ids as the license allows",
  MACHINE_NOT_FOUND: "the machine is not active: it was released, or its seat ended",
  KEY_NOT_FOUND: "the key to revoke is unknown or already revoked",
  NOT_FOUND: "there is no such path or model, or the key may not see the model",
  METHOD_NOT_ALLOWED: "the path does not take the method",
  PRECONDITION_FAILED: "the file has changed since the client asked for it before",
  PAYLOAD_TOO_LARGE: `the body has more than ${BODY_LIMIT_BYTES} bytes, or that of a batch of events more than ${BATCH_LIMIT_BYTES}`,
  UNSUPPORTED_MEDIA_TYPE: "the body is encoded",
  RANGE_NOT_SATISFIABLE: "the range lies beyond the file's end",
  EXPECTATION_FAILED: "the body that the client announced did not come within two seconds",
  CLAIM_MISMATCH: "an event that was sent before came again with other fields",
  QUOTA_EXCEEDED: "the month's quota is used up",
  RATE_LIMIT_EXCEEDED: "there were too many requests within a minute",
  SERVER_ERROR: "the service failed: its log says why",
  NOT_CONFIGURED: "the service has no repository token at present",
  SERVICE_UNAVAILABLE: "the database did not answer in time",
};

/** The codes in a few words, for charts and tables that people read. */
const NAMES: Readonly<Record<ClientCode, string>> = {
  MISSING_KEY: "no key",
  INVALID_FORMAT: "malformed key",
  MISSING_EVENT_TYPE: "event without a type",
  INVALID_REQUEST: "wrong field",
  INVALID_KEY: "unknown, suspended or revoked key",
  INVALID_LINK: "old or altered download link",
  KEY_EXPIRED: "expired license or key",
  LICENSE_REQUIRED: "model not in the license",
  OFFLINE_NOT_ALLOWED: "no use without a network",
  MACHINE_LIMIT_REACHED: "no free place for a machine",
  RELEASE_LIMIT_REACHED: "too many released machines",
  MACHINE_NOT_FOUND: "machine not active",
  KEY_NOT_FOUND: "unknown key to revoke",
  NOT_FOUND: "unknown path or model",
  METHOD_NOT_ALLOWED: "wrong method",
  PRECONDITION_FAILED: "other version of the file",
  PAYLOAD_TOO_LARGE: "too large",
  UNSUPPORTED_MEDIA_TYPE: "encoded text",
  RANGE_NOT_SATISFIABLE: "beyond the end of the file",
  EXPECTATION_FAILED: "text that did not come",
  CLAIM_MISMATCH: "repeated event with other fields",
  QUOTA_EXCEEDED: "quota used up",
  RATE_LIMIT_EXCEEDED: "too many requests",
  SERVER_ERROR: "failure of the service",
  NOT_CONFIGURED: "no repository token",
  SERVICE_UNAVAILABLE: "database did not answer",
};

/** What a program has to know besides. Each text ends the sentence of the meaning, so its "it" stands for a noun of the meaning. */
const FOR_PROGRAMS: Readonly<Partial<Record<ClientCode, string>>> = {
  INVALID_REQUEST: "or the body is not a JSON object, or the request carries two different keys",
  INVALID_LINK: "list the models again for a new one",
  LICENSE_REQUIRED: "the error names it",
  MACHINE_LIMIT_REACHED: "`Retry-After` says when to ask again",
  RELEASE_LIMIT_REACHED:
    "`Retry-After` says when the next one is possible, and is absent if the license allows none",
  METHOD_NOT_ALLOWED: "`Allow` lists those that it takes",
  UNSUPPORTED_MEDIA_TYPE: "leave out `Content-Encoding`",
  PRECONDITION_FAILED: "`If-Match` names another tag",
  EXPECTATION_FAILED: "its `Expect` is other than `100-continue` in lower case: leave out `Expect`",
  CLAIM_MISMATCH: "the `Idempotency-Key` is the same, and the error names the field that differs",
  RATE_LIMIT_EXCEEDED: "wait as `Retry-After` says",
  NOT_CONFIGURED: "without `Retry-After`, the operator must act first",
  SERVICE_UNAVAILABLE: "try again as `Retry-After` says",
};

/** Returns the meaning of a code, as the middle of a sentence; undefined for a code that no client gets. */
export function meaningOfCode(code: string): string | undefined {
  return Object.hasOwn(MEANINGS, code) ? MEANINGS[code as ClientCode] : undefined;
}

/** Returns the name of a code for people, such as `too many requests`. A code that no client gets is its own name. */
export function nameOfCode(code: string): string {
  return Object.hasOwn(NAMES, code) ? NAMES[code as ClientCode] : code;
}

/** Returns the meaning of a code as a sentence without its period. A code that no client gets stands for itself. */
export function sentenceOfCode(code: string): string {
  const meaning = meaningOfCode(code) ?? code;
  return meaning.charAt(0).toUpperCase() + meaning.slice(1);
}

/** Returns when a code is answered, for a document. */
export function conditionFor(code: ClientCode): string {
  const more = FOR_PROGRAMS[code];
  return more === undefined ? sentenceOfCode(code) : `${sentenceOfCode(code)}; ${more}`;
}

/** The status of each error code, and the body of every error. */

import { type ClientCode, type Code, type OperatorCode, type Refusal, refuse } from "../base/refusal.ts";
import { DatabaseUnavailable } from "../database/mod.ts";

const CLIENT_STATUSES: Readonly<Record<ClientCode, number>> = {
  MISSING_KEY: 400,
  INVALID_FORMAT: 400,
  MISSING_EVENT_TYPE: 400,
  INVALID_REQUEST: 400,
  INVALID_KEY: 401,
  INVALID_LINK: 401,
  KEY_EXPIRED: 401,
  LICENSE_REQUIRED: 403,
  OFFLINE_NOT_ALLOWED: 403,
  KEY_NOT_FOUND: 404,
  NOT_FOUND: 404,
  MACHINE_NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  MACHINE_LIMIT_REACHED: 409,
  RELEASE_LIMIT_REACHED: 409,
  PRECONDITION_FAILED: 412,
  PAYLOAD_TOO_LARGE: 413,
  UNSUPPORTED_MEDIA_TYPE: 415,
  RANGE_NOT_SATISFIABLE: 416,
  EXPECTATION_FAILED: 417,
  CLAIM_MISMATCH: 422,
  QUOTA_EXCEEDED: 429,
  RATE_LIMIT_EXCEEDED: 429,
  SERVER_ERROR: 500,
  NOT_CONFIGURED: 503,
  SERVICE_UNAVAILABLE: 503,
};

const OPERATOR_STATUSES: Readonly<Record<OperatorCode, number>> = {
  INVALID_TOKEN: 401,
  SCOPE_REQUIRED: 403,
  NOT_ALLOWED: 403,
  ALREADY_EXISTS: 409,
  CONFLICT: 409,
  CURSOR_EXPIRED: 410,
  MISDIRECTED_REQUEST: 421,
};

const STATUSES: Readonly<Record<Code, number>> = {
  ...CLIENT_STATUSES,
  ...OPERATOR_STATUSES,
  DATA_LOST: CLIENT_STATUSES.SERVICE_UNAVAILABLE,
};

/** Returns the code on the wire. */
export function toWireCode(code: Code): Code {
  return code === "CLAIM_MISMATCH" ? "INVALID_REQUEST" : code;
}

/** The internal codes for clients, in the order of the statuses; {@linkcode toWireCode} gives the code on the wire. */
export const CLIENT_CODES = Object.keys(CLIENT_STATUSES) as readonly ClientCode[];

/** Returns the HTTP status of a code. */
export function statusOf(code: Code): number {
  return STATUSES[code];
}

/** Stands for a code in the 503 of health, which is no error. */
export const UNHEALTHY = "UNHEALTHY";

/** The codes of answers with a status of 500 or more, as metrics and activity count them. */
export const FAILURE_CODES: readonly string[] = [
  ...CLIENT_CODES.filter((code) => statusOf(code) >= 500),
  UNHEALTHY,
];

/** Renders `{error, code}`. The contract adds `message` for `NOT_CONFIGURED` only; some refusals name `machines`. */
export function renderError({ code, sentence, machines }: Refusal): string {
  const message = code === "NOT_CONFIGURED" ? { message: sentence } : {};
  return JSON.stringify({ error: sentence, code: toWireCode(code), ...message, machines });
}

/** Returns the refusal for an exception. It tells the client only whether the database does not respond. */
export function toFailure(error: unknown): Refusal {
  return error instanceof DatabaseUnavailable
    ? refuse("SERVICE_UNAVAILABLE", "The service cannot answer now: its database does not respond; try again")
    : refuse("SERVER_ERROR", "Internal error");
}

/** The facts that the OpenAPI document states about all operations, such as their codes and their headers. */
import * as v from "valibot";
import { described } from "../../../base/answer_fields.ts";
import type { Code } from "../../../base/refusal.ts";
import {
  COMMON_HEADERS,
  conditionFor,
  header,
  type Json,
  optionalNumber,
  sentenceOfCode,
} from "../../../wire/mod.ts";
import type { Route } from "./route.ts";

/** The condition under which each code is answered. */
export const CONDITIONS: Readonly<Partial<Record<Code, string>>> = {
  METHOD_NOT_ALLOWED: conditionFor("METHOD_NOT_ALLOWED"),
  UNSUPPORTED_MEDIA_TYPE: conditionFor("UNSUPPORTED_MEDIA_TYPE"),
  EXPECTATION_FAILED: conditionFor("EXPECTATION_FAILED"),
  RATE_LIMIT_EXCEEDED: conditionFor("RATE_LIMIT_EXCEEDED"),
  SERVER_ERROR: conditionFor("SERVER_ERROR"),
  INVALID_REQUEST: "A parameter, a header or a field is wrong; `details` names each wrong field",
  INVALID_TOKEN: "The token is missing, unknown, expired, disabled or revoked",
  SCOPE_REQUIRED: "The token lacks the scope that the error names",
  NOT_ALLOWED:
    "The token may not do this with that tier, mode, limit or expiry, or not from this address; or a page of another " +
    "website sent the request",
  KEY_NOT_FOUND: "There is no such key, or none that the token may see",
  PRECONDITION_FAILED: `${conditionFor("PRECONDITION_FAILED")}, or stands in an upload`,
  PAYLOAD_TOO_LARGE: `${conditionFor("PAYLOAD_TOO_LARGE")}; the file of a model has more than \`CLAVIGER_UPLOAD_MAX_GB\``,
  SERVICE_UNAVAILABLE: `${sentenceOfCode("SERVICE_UNAVAILABLE")}, or the disk has no room for the file of a model`,
  NOT_FOUND: "There is no such license, account or model, or none that the token may see",
  ALREADY_EXISTS: "There is such an object already; `id` is its identifier, if the token may read it",
  CONFLICT:
    "The state of the key, license, account or model does not allow the change, or a restricted token may not join the account",
  CURSOR_EXPIRED:
    "The database was restored or replaced, or a standby took its place: begin again without `after`",
  MISDIRECTED_REQUEST: "The `Host` of the request is not the host of this listener",
  CLAIM_MISMATCH: "The `Idempotency-Key` was sent with another request",
};

const EVERYWHERE: readonly Code[] = [
  "INVALID_REQUEST",
  "INVALID_TOKEN",
  "NOT_ALLOWED",
  "METHOD_NOT_ALLOWED",
  "MISDIRECTED_REQUEST",
  "RATE_LIMIT_EXCEEDED",
  "SERVER_ERROR",
  "SERVICE_UNAVAILABLE",
];
const WITH_BODY: readonly Code[] = ["PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE", "EXPECTATION_FAILED"];

/** Returns the codes that an operation may answer. */
export function codesOf({ method, scope, operation }: Route): readonly Code[] {
  const { path, codes = [], needsIdempotencyKey } = operation;
  return [
    ...EVERYWHERE,
    ...(scope === "any" ? [] : ["SCOPE_REQUIRED" as const]),
    ...(method === "GET" ? [] : WITH_BODY),
    ...(needsIdempotencyKey ? ["CLAIM_MISMATCH" as const] : []),
    ...(path === undefined ? [] : [path.code]),
    ...codes,
  ];
}

export const HEADERS = {
  ...COMMON_HEADERS,
  "X-RateLimit-Limit": optionalNumber(
    "Allowed requests a minute of this token; absent if the request was not counted for a token",
    1,
  ),
  "Retry-After": header("Whole seconds to wait", { type: "integer", minimum: 1 }),
  "Content-Disposition": header("The name to save the file under"),
  "WWW-Authenticate": header("How to authenticate", { const: "Bearer" }),
};

const HEALTH_ANSWER = {
  description: "For balancers: needs no token, takes any `Host`, and is not counted. The answer has no body.",
  tags: ["service"],
  security: [],
  responses: {
    200: { description: "The service answers" },
    503: { description: "The service stops, or its database does not answer" },
  },
};
/** The path that is not below `/admin/v1`. */
export const HEALTH: Json = {
  get: { operationId: "getHealth", summary: "Tell whether the service works", ...HEALTH_ANSWER },
  head: { operationId: "headHealth", summary: "Tell whether the service works", ...HEALTH_ANSWER },
};

/** The groups of operations, by the first segment of the path. */
export const TAGS: Readonly<Record<string, string>> = {
  keys: "Keys: find, issue, suspend, rotate, revoke",
  licenses: "Licenses: tier, limit, expiry",
  accounts: "Accounts: customers",
  usage: "The use of a month",
  models: "The model registry",
  audit: "The audit log",
  service: "The service, the token and this document",
};

/** 16 to 255 printable ASCII characters. */
export const IDEMPOTENCY_KEY_PATTERN = "^[!-~]{16,255}$";

/** The header of operations that answer an API key. */
export const IDEMPOTENCY_KEY: Json = {
  name: "Idempotency-Key",
  in: "header",
  required: true,
  description:
    "A random text that identifies this order. For 24 hours a repeated request with the same text gets the same " +
    "answer, and no second key is issued.",
  schema: { type: "string", pattern: IDEMPOTENCY_KEY_PATTERN },
};

/** The body of every refusal. */
export const ERROR = v.object({
  error: described(v.string(), "A sentence for people"),
  code: described(v.string(), "For programs; later versions may add codes"),
  details: v.optional(
    described(
      v.array(v.object({ field: v.string(), error: v.string() })),
      "The parameters or fields that are wrong",
    ),
  ),
  id: v.optional(described(v.string(), "The identifier of the thing that exists already")),
});

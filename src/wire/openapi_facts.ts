/** The headers of answers and the conditions of refusals that mean the same on both listeners. */
import type { ClientCode } from "../base/refusal.ts";
import type { Json } from "./json_schema.ts";
import { BODY_LIMIT_BYTES } from "./read_body.ts";

/** Describes a header that an answer always has. It is a text unless the keywords of JSON Schema say otherwise. */
export function header(description: string, keywords: Json = {}): Json {
  return { description, required: true, schema: { type: "string", ...keywords } };
}

/** Describes a header with a whole number that an answer may lack. */
export function optionalNumber(description: string, minimum = 0): Json {
  return { description, required: false, schema: { type: "integer", minimum } };
}

/** The headers that answers of both listeners have, each as the document describes it. */
export const COMMON_HEADERS = {
  "X-Request-Id": header("The identifier of the request in the service's log", {
    pattern: "^req_[0-9a-f]{32}$",
  }),
  "X-RateLimit-Limit": optionalNumber(
    "Allowed requests a minute; all three X-RateLimit headers are absent if the limit is switched off",
    1,
  ),
  "X-RateLimit-Remaining": optionalNumber("How many requests are left now"),
  "X-RateLimit-Reset": optionalNumber("The Unix second at which all requests would be available again"),
  "Accept-Encoding": header("The only encoding that a body may have: none", { const: "identity" }),
  Allow: header("The methods that the path accepts"),
  ETag: header("Strong: it changes with the bytes"),
} as const satisfies Readonly<Record<string, Json>>;

/** The condition under which each code is answered, for codes that mean the same on both listeners. */
export const COMMON_CONDITIONS = {
  METHOD_NOT_ALLOWED: "The method is not in the list of `Allow`",
  PAYLOAD_TOO_LARGE: `The body has more than ${BODY_LIMIT_BYTES} bytes`,
  UNSUPPORTED_MEDIA_TYPE: "The body is encoded: leave out `Content-Encoding`",
  RATE_LIMIT_EXCEEDED: "Too many requests within a minute: wait as `Retry-After` says",
  SERVER_ERROR: "Internal error",
  SERVICE_UNAVAILABLE: "The database does not answer in time: try again as `Retry-After` says",
} as const satisfies Partial<Readonly<Record<ClientCode, string>>>;

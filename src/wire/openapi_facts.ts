/** The headers of answers that mean the same on both listeners. */
import type { Json } from "./json_schema.ts";

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

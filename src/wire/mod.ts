/**
 * What both listeners do with requests and answers: read bodies and fields within bounds, and render headers and
 * errors. Knows no route.
 */
export {
  IDLE_TIMEOUT_SECONDS,
  newHeaders,
  newJsonResponse,
} from "./answer_headers.ts";
export { discardBody } from "./discard_body.ts";
export { CLIENT_CODES, renderError, statusOf, toFailure, toWireCode } from "./error_response.ts";
export { andThen, type Eventually } from "./eventually.ts";
export { inJsonSchema, isOptionalText, optionalMetadata, optionalText, parseFields } from "./fields.ts";
export {
  BODY_LIMIT_BYTES,
  hasTrailers,
  type JsonObject,
  NO_BODY,
  readJson,
  toBodyRefusal,
  toJsonObject,
} from "./read_body.ts";
export { pathOf, readQuery, targetOf } from "./target.ts";

/**
 * Functions that both listeners use for requests and answers: they read bodies and fields within bounds, and render
 * headers and errors. No function here knows a route. The names of the limited endpoints are here, because settings and the
 * listener for clients both need them.
 */

export { IDLE_TIMEOUT_SECONDS, newHeaders, newJsonResponse } from "./answer_headers.ts";
export { conditionFor, meaningOfCode, nameOfCode, sentenceOfCode } from "./code_meanings.ts";
export { discardBody } from "./discard_body.ts";
export { checkTag, tagOf } from "./entity_tag.ts";
export {
  CLIENT_CODES,
  FAILURE_CODES,
  renderError,
  statusOf,
  toFailure,
  toWireCode,
  UNHEALTHY,
} from "./error_response.ts";
export { andThen, type Eventually } from "./eventually.ts";
export { type Json, renderSchemas } from "./json_schema.ts";
export {
  GROWING_ENDPOINTS,
  LIMITED_ENDPOINTS,
  type LimitedEndpoint,
  limitsOfKey,
  nameOfEndpoint,
} from "./limited_endpoints.ts";
export { listenOrRefuse } from "./listen_or_refuse.ts";
export { renderOpenApi, toPascalCase } from "./openapi.ts";
export { COMMON_HEADERS, header, optionalNumber } from "./openapi_facts.ts";
export type { DescribedAnswer, DescribedOperation } from "./openapi_operation.ts";
export {
  BATCH_LIMIT_BYTES,
  BODY_LIMIT_BYTES,
  type BodyBounds,
  hasTrailers,
  type JsonObject,
  NO_BODY,
  readJson,
  readText,
  refuseEncoded,
  toBodyRefusal,
  toJsonObject,
} from "./read_body.ts";
export { isOptionalText, optionalText, parseFields } from "./request_fields.ts";
export { pathOf, readQuery, SENT_TWICE, targetOf } from "./target.ts";

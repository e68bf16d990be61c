/** The headers of answers, as the OpenAPI document describes them. */

/** The description of each header, by its name. */
export const HEADERS = {
  "X-Request-Id": {
    description: "The identifier of the request in the service's log",
    required: true,
    schema: { type: "string", pattern: "^req_[0-9a-f]{32}$" },
  },
  "X-RateLimit-Limit": {
    description:
      "Allowed requests a minute; all three X-RateLimit headers are absent if the limit is switched off",
    required: false,
    schema: { type: "integer", minimum: 1 },
  },
  "X-RateLimit-Remaining": {
    description: "How many requests are left now",
    required: false,
    schema: { type: "integer", minimum: 0 },
  },
  "X-RateLimit-Reset": {
    description: "The Unix second at which all requests would be available again",
    required: false,
    schema: { type: "integer", minimum: 0 },
  },
  "Retry-After": {
    description:
      "Whole seconds to wait; never with `QUOTA_EXCEEDED`; with `NOT_CONFIGURED` only if waiting can help",
    required: false,
    schema: { type: "integer", minimum: 1 },
  },
  "Accept-Encoding": {
    description: "The only encoding that a body may have: none",
    required: true,
    schema: { type: "string", const: "identity" },
  },
  Allow: {
    description: "The methods that the path accepts",
    required: true,
    schema: { type: "string" },
  },
  ETag: {
    description: "Strong: it changes with the bytes",
    required: true,
    schema: { type: "string" },
  },
  "Accept-Ranges": {
    description: "Tells that ranges of bytes can be requested",
    required: true,
    schema: { type: "string", const: "bytes" },
  },
  "Content-Range": {
    description: "The range of bytes in this answer and the size of the file; with a 416, only the size",
    required: true,
    schema: { type: "string", pattern: "^bytes (\\d+-\\d+|\\*)/\\d+$" },
  },
  "Content-Disposition": {
    description: "The name to save the file under",
    required: true,
    schema: { type: "string" },
  },
} as const;
export type HeaderName = keyof typeof HEADERS;

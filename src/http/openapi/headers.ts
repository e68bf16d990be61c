/** The headers of answers, as the OpenAPI document describes them. */

/** The headers that answers have, by their names. */
export const HEADERS = {
  "X-Request-Id": {
    description: "Names the request in the service's log",
    required: true,
    schema: { type: "string", pattern: "^req_[0-9a-f]{32}$" },
  },
  "X-RateLimit-Limit": {
    description:
      "Requests a minute; all three X-RateLimit headers are absent where the limit is switched off",
    required: false,
    schema: { type: "integer", minimum: 1 },
  },
  "X-RateLimit-Remaining": {
    description: "How many of them are left now",
    required: false,
    schema: { type: "integer", minimum: 0 },
  },
  "X-RateLimit-Reset": {
    description: "The Unix second at which all of them would be left again",
    required: false,
    schema: { type: "integer", minimum: 0 },
  },
  "Retry-After": {
    description:
      "Whole seconds to wait; not with `QUOTA_EXCEEDED`, and with `NOT_CONFIGURED` only where waiting can help",
    required: false,
    schema: { type: "integer", minimum: 1 },
  },
  "Accept-Encoding": {
    description: "How a body may be encoded: not at all",
    required: true,
    schema: { type: "string", const: "identity" },
  },
  Allow: {
    description: "The methods that the path takes",
    required: true,
    schema: { type: "string" },
  },
  ETag: {
    description: "Strong: it changes with the bytes",
    required: true,
    schema: { type: "string" },
  },
  "Accept-Ranges": {
    description: "That ranges of bytes can be asked for",
    required: true,
    schema: { type: "string", const: "bytes" },
  },
  "Content-Range": {
    description: "Which bytes these are, and of how many; with a 416, of how many alone",
    required: true,
    schema: { type: "string", pattern: "^bytes (\\d+-\\d+|\\*)/\\d+$" },
  },
  "Content-Disposition": {
    description: "A name to save the file under",
    required: true,
    schema: { type: "string" },
  },
} as const;
export type HeaderName = keyof typeof HEADERS;

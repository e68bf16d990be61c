/** The headers of answers, as the OpenAPI document describes them. */
import { COMMON_HEADERS } from "../../wire/mod.ts";

/** The description of each header, by its name. */
export const HEADERS = {
  ...COMMON_HEADERS,
  "Retry-After": {
    description:
      "Whole seconds to wait; never with `QUOTA_EXCEEDED`; with `NOT_CONFIGURED` only if waiting can help",
    required: false,
    schema: { type: "integer", minimum: 1 },
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

/** The headers of answers, as the OpenAPI document describes them. */
import { COMMON_HEADERS, header, optionalNumber } from "../../wire/mod.ts";

/** The description of each header, by its name. */
export const HEADERS = {
  ...COMMON_HEADERS,
  "Retry-After": optionalNumber(
    "Whole seconds to wait; never with `QUOTA_EXCEEDED`; with `NOT_CONFIGURED` only if waiting can help",
    1,
  ),
  "Accept-Ranges": header("Tells that ranges of bytes can be requested", { const: "bytes" }),
  "Content-Range": header(
    "The range of bytes in this answer and the size of the file; with a 416, only the size",
    { pattern: "^bytes (\\d+-\\d+|\\*)/\\d+$" },
  ),
  "Content-Disposition": header("The name to save the file under"),
};

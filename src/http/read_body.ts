/** Reading a request's body as a JSON object, with a bound that holds for a declared and a chunked length. */
import { isRefusal, type Refusal, refuse } from "../refusal.ts";
import type { Eventually } from "./eventually.ts";

export const BODY_LIMIT_BYTES = 64 * 1024;

/** A JSON object as it was parsed: nothing is known of its fields. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** What the body of a request without one reads as, and of one that has none to read. */
export const NO_BODY: JsonObject = {};

const ENCODED = refuse("UNSUPPORTED_MEDIA_TYPE", "The body must not be encoded: leave out Content-Encoding");
const TOO_LARGE = refuse("PAYLOAD_TOO_LARGE", `The body must have at most ${BODY_LIMIT_BYTES} bytes`);
/** For a sender that hung up, which is no failure of ours: nobody reads this answer, but the log shows it. */
const INCOMPLETE = refuse("INVALID_REQUEST", "The body ended before it was complete");
const TRAILERS = refuse("INVALID_REQUEST", "The body must have no trailers: leave out Trailer");
const NOT_JSON = refuse("INVALID_REQUEST", "The body is not valid JSON");
const NO_OBJECT = refuse("INVALID_REQUEST", "The body must be a JSON object");

/**
 * Begins to read the body of a request: what comes of it is for {@linkcode toJsonObject}, and what it fails with
 * for {@linkcode toBodyRefusal}. Refuses an encoded body and one over the limit, in this order. An empty body is
 * an empty object. Bytes that are not UTF-8 become U+FFFD, which no text allows.
 */
export function readJson(request: Request): Eventually<unknown> {
  const { headers } = request;
  const encoding = headers.get("content-encoding");
  if (encoding !== null && encoding !== "" && encoding.toLowerCase() !== "identity") return ENCODED;
  // Only a length that is there and is one number can be relied on: the same header twice reads "5, 5".
  const declaredBytes = Number(headers.get("content-length") ?? Number.NaN);
  if (declaredBytes > BODY_LIMIT_BYTES) return TOO_LARGE;
  if (declaredBytes === 0) return NO_BODY;
  if (declaredBytes <= BODY_LIMIT_BYTES) return request.json();
  return hasTrailers(request) ? TRAILERS : readChunks(request);
}

/** Whether fields come after the body: Bun 1.4.5 answers those by a bare 400, sometimes in place of our answer. */
export function hasTrailers({ headers }: Request): boolean {
  return headers.has("trailer");
}

/** Throws a `SyntaxError` for what is not JSON. */
async function readChunks({ body }: Request): Promise<unknown> {
  if (body === null) return NO_BODY;
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      bytes += value.byteLength;
      if (bytes > BODY_LIMIT_BYTES) return TOO_LARGE;
      text += decoder.decode(value, { stream: true });
    }
  } finally {
    // The rest of a body that is too large is discarded by another reader.
    reader.releaseLock();
  }
  text += decoder.decode();
  return text === "" ? NO_BODY : JSON.parse(text);
}

/** Why a body could not be read. */
export function toBodyRefusal(error: unknown): Refusal {
  return error instanceof SyntaxError ? NOT_JSON : INCOMPLETE;
}

/** The object that was read, or why it is none. */
export function toJsonObject(value: unknown): JsonObject | Refusal {
  if (isRefusal(value)) return value;
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as JsonObject)
    : NO_OBJECT;
}

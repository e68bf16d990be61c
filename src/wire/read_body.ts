/** Reads a request's body as a JSON object. The size limit holds for a declared length and for chunks. */
import { isRefusal, type Refusal, refuse } from "../base/refusal.ts";
import type { Eventually } from "./eventually.ts";

export const BODY_LIMIT_BYTES = 64 * 1024;
/** For a batch of events alone. */
export const BATCH_LIMIT_BYTES = 1024 * 1024;

/** A parsed JSON object; its fields are not checked yet. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** The result for an empty body, and for a request whose body is not read. */
export const NO_BODY: JsonObject = {};

const ENCODED = refuse("UNSUPPORTED_MEDIA_TYPE", "The body must not be encoded: leave out Content-Encoding");
/** For a sender that hung up. No client reads this answer, but the log must not show it as our failure. */
const INCOMPLETE = refuse("INVALID_REQUEST", "The body ended before it was complete");
const TOO_LATE = refuse(
  "INVALID_REQUEST",
  "The body did not come in time: send it faster, or send less at once",
);
const TRAILERS = refuse("INVALID_REQUEST", "The body must have no trailers: leave out Trailer");
const NOT_JSON = refuse("INVALID_REQUEST", "The body is not valid JSON");
const NOT_AN_OBJECT = refuse("INVALID_REQUEST", "The body must be a JSON object");

export interface BodyBounds {
  /** The most bytes; {@linkcode BODY_LIMIT_BYTES} by default. */
  readonly limitBytes: number;
  /** The time in which the whole body must come; no bound by default. */
  readonly withinMs: number;
}

/**
 * Reads the body of a request as JSON. Pass the result to {@linkcode toJsonObject}, and an error to
 * {@linkcode toBodyRefusal}. Refuses an encoded body first, then a body over the limit. An empty body is an empty
 * object. Bytes that are not UTF-8 become U+FFFD, which is refused in every text.
 */
export function readJson(request: Request, bounds?: BodyBounds): Eventually<unknown> {
  const { headers } = request;
  const encoded = refuseEncoded(headers);
  if (encoded !== undefined) return encoded;
  // The length counts only if it is a single number: the same header twice reads "5, 5".
  const declaredBytes = Number(headers.get("content-length") ?? Number.NaN);
  const limitBytes = bounds?.limitBytes ?? BODY_LIMIT_BYTES;
  if (declaredBytes > limitBytes) return tooLarge(limitBytes);
  if (declaredBytes === 0) return NO_BODY;
  if (declaredBytes <= BODY_LIMIT_BYTES && bounds === undefined) return request.json();
  return hasTrailers(request) ? TRAILERS : readChunks(request, limitBytes, bounds?.withinMs);
}

function tooLarge(limitBytes: number): Refusal {
  return refuse("PAYLOAD_TOO_LARGE", `The body must have at most ${limitBytes} bytes`);
}

/** Refuses a body that is encoded. */
export function refuseEncoded(headers: Headers): Refusal | undefined {
  const encoding = headers.get("content-encoding");
  return encoding && encoding.toLowerCase() !== "identity" ? ENCODED : undefined;
}

/**
 * Tells whether header fields follow the body. Bun 1.4.5 answers such a request with a bare 400, sometimes in place
 * of our answer.
 */
export function hasTrailers({ headers }: Request): boolean {
  return headers.has("trailer");
}

/** Reads a body in its parts, and not for longer than `withinMs`. Throws a `SyntaxError` if it is not JSON. */
async function readChunks(request: Request, limitBytes: number, withinMs?: number): Promise<unknown> {
  const text = await readParts(request, limitBytes, withinMs);
  return text === "" ? NO_BODY : typeof text === "string" ? JSON.parse(text) : text;
}

/** Reads a body as text. Refuses an encoded body, one over the limit, and one that does not come in time. */
export async function readText(
  request: Request,
  { limitBytes, withinMs }: BodyBounds,
): Promise<string | Refusal> {
  const encoded = refuseEncoded(request.headers);
  if (encoded !== undefined) return encoded;
  if (Number(request.headers.get("content-length") ?? 0) > limitBytes) return tooLarge(limitBytes);
  if (hasTrailers(request)) return TRAILERS;
  return await readParts(request, limitBytes, withinMs).catch(toBodyRefusal);
}

async function readParts(
  { body }: Request,
  limitBytes: number,
  withinMs: number | undefined,
): Promise<string | Refusal> {
  if (body === null) return "";
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  const reader = body.getReader();
  let isLate = false;
  const stop = () => {
    isLate = true;
    // Ends the pending read. Cancelling the body instead would close the connection on Node.
    reader.releaseLock();
  };
  const timer = withinMs === undefined ? undefined : setTimeout(stop, withinMs);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      bytes += value.byteLength;
      if (bytes > limitBytes) return tooLarge(limitBytes);
      text += decoder.decode(value, { stream: true });
    }
  } catch (error) {
    if (isLate) return TOO_LATE;
    throw error;
  } finally {
    clearTimeout(timer);
    // If the body is too large, `discardBody` reads the rest with a reader of its own.
    reader.releaseLock();
  }
  return text + decoder.decode();
}

/** Returns the refusal for an error that occurred while the body was read. */
export function toBodyRefusal(error: unknown): Refusal {
  if (isRefusal(error)) return error;
  return error instanceof SyntaxError ? NOT_JSON : INCOMPLETE;
}

/** Returns the object that was read, or the refusal if it is not an object. */
export function toJsonObject(value: unknown): JsonObject | Refusal {
  if (isRefusal(value)) return value;
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as JsonObject)
    : NOT_AN_OBJECT;
}

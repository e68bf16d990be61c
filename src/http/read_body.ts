/** Reading a request's body as a JSON object, with a bound that holds for a declared and a chunked length. */
import { type Refusal, refuse } from "../refusal.ts";

export const BODY_LIMIT_BYTES = 64 * 1024;

/** A JSON object as it was parsed: nothing is known of its fields. */
export type JsonObject = Readonly<Record<string, unknown>>;

/**
 * Reads the body: an empty one is an empty object. Refuses an encoded body, one over the limit, and one
 * that is not a JSON object, in this order. Bytes that are not UTF-8 become U+FFFD, which no text allows.
 */
export async function readJsonObject(request: Request): Promise<JsonObject | Refusal> {
  const encoding = request.headers.get("content-encoding");
  if (encoding !== null && encoding !== "" && encoding.toLowerCase() !== "identity") {
    return refuse("UNSUPPORTED_MEDIA_TYPE", "The body must not be encoded: leave out Content-Encoding");
  }
  let text: string | undefined;
  try {
    text = await readText(request);
  } catch {
    // The sender hung up, which is no failure of ours. Nobody reads this answer, but the log shows it.
    return refuse("INVALID_REQUEST", "The body ended before it was complete");
  }
  if (text === undefined) {
    return refuse("PAYLOAD_TOO_LARGE", `The body must have at most ${BODY_LIMIT_BYTES} bytes`);
  }
  if (text === "") return {};
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return refuse("INVALID_REQUEST", "The body is not valid JSON");
  }
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as JsonObject)
    : refuse("INVALID_REQUEST", "The body must be a JSON object");
}

/** The body as text, undefined when it is over the limit. */
async function readText(request: Request): Promise<string | undefined> {
  // Only a length that is there and is one number can be relied on: the same header twice reads "5, 5".
  const declaredBytes = Number(request.headers.get("content-length") ?? Number.NaN);
  if (declaredBytes > BODY_LIMIT_BYTES) return undefined;
  if (declaredBytes <= BODY_LIMIT_BYTES) return await request.text();
  const { body } = request;
  if (body === null) return "";
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.byteLength;
    if (bytes > BODY_LIMIT_BYTES) return undefined;
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

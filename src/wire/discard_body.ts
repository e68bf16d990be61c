/**
 * Reads and drops the rest of a body before its request is refused. Some clients write the whole request before they
 * read; without this, such a client would see a closed connection and no answer. Bounded in bytes, in time, and in
 * the number of requests.
 */
import { BODY_LIMIT_BYTES, hasTrailers } from "./read_body.ts";

const DISCARDED_BYTES = 8 * 1024 * 1024;
const DISCARD_MS = 2_000;
const DISCARDS_AT_ONCE = 64;

let discards = 0;

/** Drops the rest of the body. The promise resolves when the request can be answered; undefined means at once. */
export function discardBody(request: Request): Promise<void> | undefined {
  if (discards === DISCARDS_AT_ONCE || !isLarge(request) || hasTrailers(request)) return undefined;
  const { body } = request;
  if (body === null || body.locked) return undefined;
  discards++;
  return discard(body).finally(() => discards--);
}

/**
 * Tells whether the body is, or may be, over the limit. A client has sent a smaller body before it can see the
 * connection close.
 */
function isLarge({ headers, method }: Request): boolean {
  if (method === "GET" || method === "HEAD") return false;
  const declared = headers.get("content-length");
  return declared === null ? headers.has("transfer-encoding") : !(Number(declared) <= BODY_LIMIT_BYTES);
}

async function discard(body: ReadableStream<Uint8Array>): Promise<void> {
  const reader = body.getReader();
  // Ends the pending read. Cancelling the body instead would close the connection on Node.
  const timer = setTimeout(() => reader.releaseLock(), DISCARD_MS);
  try {
    for (let bytes = 0; bytes < DISCARDED_BYTES; ) {
      const { done, value } = await reader.read();
      if (done) return;
      bytes += value.byteLength;
    }
  } catch {
    // The time is over, or the client hung up.
  } finally {
    clearTimeout(timer);
    reader.releaseLock();
  }
}

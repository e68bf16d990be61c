/**
 * Reads the rest of a body that nobody wants, before its request is answered. A client that writes all of its request
 * before it reads would otherwise find its connection closed, and no answer. What that takes is bounded: in bytes, in
 * time, and in the number of requests.
 */
import { BODY_LIMIT_BYTES, hasTrailers } from "./read_body.ts";

const DISCARDED_BYTES = 8 * 1024 * 1024;
const DISCARD_MS = 2_000;
const DISCARDS_AT_ONCE = 64;

let discards = 0;

/** Resolves once the request can be answered; undefined where that is now. */
export function discardBody(request: Request): Promise<void> | undefined {
  if (discards === DISCARDS_AT_ONCE || !isLarge(request) || hasTrailers(request)) return undefined;
  const { body } = request;
  if (body === null || body.locked) return undefined;
  discards++;
  return discard(body).finally(() => discards--);
}

/** Whether it is over the limit, or may be. A client has sent a smaller one before it sees the connection close. */
function isLarge({ headers, method }: Request): boolean {
  if (method === "GET" || method === "HEAD") return false;
  const declared = headers.get("content-length");
  return declared === null ? headers.has("transfer-encoding") : !(Number(declared) <= BODY_LIMIT_BYTES);
}

async function discard(body: ReadableStream<Uint8Array>): Promise<void> {
  const reader = body.getReader();
  // Ends the read that waits. To cancel the body would close the connection on Node.
  const timer = setTimeout(() => reader.releaseLock(), DISCARD_MS);
  try {
    for (let bytes = 0; bytes < DISCARDED_BYTES; ) {
      const { done, value } = await reader.read();
      if (done) return;
      bytes += value.byteLength;
    }
  } catch {
    // Its time is over, or the client hung up.
  } finally {
    clearTimeout(timer);
    reader.releaseLock();
  }
}

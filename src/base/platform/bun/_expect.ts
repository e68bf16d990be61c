/**
 * Answers clients that wait for `100 Continue`. Bun 1.4.5 sends it only for `Expect: 100-continue` in lower case, and offers
 * no function that sends it. A client with another spelling, as some Java libraries have, sends its body after a pause, or
 * never. So a body of which no byte has come after two seconds fails with a refusal. Then the connection is closed, because
 * its next bytes may be this body and not a request.
 */
import { BODY_NOT_SENT } from "../body_not_sent.ts";
import type { Answer, Peer } from "../mod.ts";

/** Longer than the second after which common clients, such as curl, send their body anyway. */
const LATE_MS = 2_000;

/** Tells whether a client may wait for a `100 Continue` that Bun does not send. The header is read in about 50 ns. */
export function mayWait({ headers }: Request): boolean {
  const expect = headers.get("expect");
  return expect !== null && expect !== "100-continue";
}

/** Answers a request for which {@linkcode mayWait} is true. */
export async function answerWaiting(request: Request, peer: Peer, answer: Answer): Promise<Response> {
  const { url, method, headers, body } = request;
  // Without a valid `Host` the address is only a path.
  const address = url.startsWith("/") ? `http://localhost${url}` : url;
  if (body === null) return await answer(request, peer);
  const awaited = failLate(body);
  const copy = new Request(address, { method, headers, body: awaited.body });
  const response = await answer(copy, { address: () => peer.address(request) });
  if (!awaited.hasBegun()) {
    response.headers.set("Connection", "close");
    response.headers.delete("Keep-Alive");
  }
  return response;
}

/** Returns the body as a stream that fails if no byte has come after two seconds. */
function failLate(sent: ReadableStream<Uint8Array>) {
  const reader = sent.getReader();
  let hasBegun = false;
  let timer: Timer | undefined;
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      timer = setTimeout(() => controller.error(BODY_NOT_SENT), LATE_MS);
    },
    async pull(controller) {
      const { done, value } = await reader.read().finally(() => clearTimeout(timer));
      if (done) controller.close();
      else controller.enqueue(value);
      // After the failure the lines above throw, so a late body has not begun.
      hasBegun = true;
    },
  });
  return { body, hasBegun: () => hasBegun };
}

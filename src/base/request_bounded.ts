/** Sends an HTTP request to another server. Uses `node:` modules: on Bun and on Node they accept a CA from a file. */
import { once } from "node:events";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";

interface BoundedRequest {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** The certificates to trust, as PEM; by default those of the system. */
  readonly ca?: string | undefined;
  /** Ends the request. */
  readonly signal: AbortSignal;
  /** The most bytes of an answer. */
  readonly limitBytes: number;
}

/**
 * Sends a request once, on a connection of its own, and follows no redirect. Throws the error of the connection, the one
 * of the signal, and one for an answer that is too long.
 */
export async function requestBounded(
  url: string,
  { body, headers, limitBytes, ca, ...rest }: BoundedRequest,
) {
  const options = {
    ...rest,
    headers: { ...headers, "content-length": `${body.length}` },
    agent: false,
    ...(ca !== undefined && { ca }),
  };
  const sent = (url.startsWith("https:") ? requestHttps : requestHttp)(url, options);
  // An error after the answer has begun is one of the answer, too.
  sent.on("error", () => {});
  sent.end(body);
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  const chunks: Buffer[] = [];
  let leftBytes = limitBytes;
  for await (const chunk of response) {
    chunks.push(chunk);
    leftBytes -= chunk.length;
    if (leftBytes < 0) throw new Error("its answer is too long");
  }
  return { status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) };
}

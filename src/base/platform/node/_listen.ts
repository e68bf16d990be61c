/**
 * Listens with `node:http`. `@hono/node-server` translates between its messages and web-standard requests.
 *
 * Clients must see the same behaviour as on Bun, which needs two things here. First, the adapter would itself refuse a
 * request with an invalid `Host`, or with a backslash in its target. So before it builds the URL of a request, the host is
 * replaced by a fixed one, and backslashes by slashes. The program still gets the client's `Host`, because the adapter
 * copies the headers from Node's list of raw headers. Second, `stop` uses its own list of connections: Node does not
 * count a connection that has never sent anything as idle, so that connection would delay the stop until its deadline.
 */
import { createServer, type IncomingMessage, type Server, ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { Socket } from "node:net";
import { getRequestListener, RequestError } from "@hono/node-server";
import { lastResort } from "../last_resort.ts";
import { listenFailure } from "../listen_failure.ts";
import type { Listener, ListenOptions, Peer, TlsPair } from "../mod.ts";

/** The most time that a client may take to send one whole request; for a listener that takes uploads, its headers. */
const REQUEST_TIMEOUT_MS = 60_000;

export function listen(options: ListenOptions): Promise<Listener> {
  const connections = new Connections();
  const idleMs = options.idleTimeoutSeconds * 1_000;
  const handle = getRequestListener(
    (request, env) =>
      options.answer(request, peerOf(env.incoming.socket as Socket, env.outgoing as ServerResponse)),
    // Called for a request that the adapter cannot read, and for an error of `answer`.
    {
      errorHandler: (error) =>
        error instanceof RequestError ? new Response(null, { status: 400 }) : lastResort(),
    },
  );
  const take = (incoming: IncomingMessage, outgoing: ServerResponse) => {
    connections.begin(incoming.socket, outgoing);
    // As on Bun, a whole request may wait for its answer while nothing is sent: a large file is written to the disk.
    if (options.takesUploads) incoming.once("end", () => incoming.socket.setTimeout(0));
    incoming.headers.host = "localhost";
    incoming.url = normalise(incoming.url ?? "/");
    void handle(incoming, outgoing).catch(() => outgoing.destroy());
  };
  const settings = {
    keepAliveTimeout: idleMs,
    requestTimeout: options.takesUploads ? 0 : REQUEST_TIMEOUT_MS,
    headersTimeout: REQUEST_TIMEOUT_MS,
    ServerResponse: WholeResponse,
  };
  const secure = options.tls && createSecureServer({ ...settings, ...toPem(options.tls) }, take);
  const server: Server = secure ?? createServer(settings, take);
  // Node would refuse a request with an unknown `Expect` header; serve it as every other request.
  server.on("checkExpectation", take);
  server.timeout = idleMs;
  server.on(secure === undefined ? "connection" : "secureConnection", (socket: Socket) =>
    connections.add(socket),
  );

  const { host, port } = options;
  return new Promise((resolve, reject) => {
    // Stays after the start: without it, an accept that fails later, for example because no descriptor is free, would
    // end the process.
    server.on("error", (error) => reject(listenFailure(error, options)));
    server.listen({ host, port }, () => {
      const bound = server.address();
      resolve({
        host,
        port: typeof bound === "object" && bound !== null ? bound.port : port,
        ...(secure && { renewTls: async (pair: TlsPair) => secure.setSecureContext(toPem(pair)) }),
        stop: (deadlineMs) => stop(server, connections, deadlineMs),
      });
    });
  });
}

function toPem({ certificate, privateKey }: TlsPair): { readonly cert: string; readonly key: string } {
  return { cert: certificate, key: privateKey };
}

/**
 * Returns the request target without a scheme and host, and with slashes in place of the backslashes before the query,
 * as the URL standard reads them.
 */
function normalise(target: string): string {
  if (target.startsWith("/") && !target.includes("\\")) return target;
  const [host = ""] = /^https?:\/\/[^/?#]*/i.exec(target) ?? [];
  const rest = target.slice(host.length);
  const local = host === "" || rest.startsWith("/") ? rest : `/${rest}`;
  const end = local.indexOf("?");
  return end === -1
    ? local.replaceAll("\\", "/")
    : local.slice(0, end).replaceAll("\\", "/") + local.slice(end);
}

/**
 * A response that cuts its connection if its body, sent in parts, ends before its `Content-Length`: a client must not
 * wait for the rest of a file that can no longer be read.
 */
class WholeResponse extends ServerResponse {
  // Set before the first part, because Node counts the bytes of a body only in this mode.
  override write(...args: readonly unknown[]): boolean {
    this.strictContentLength = true;
    return Reflect.apply(super.write, this, args);
  }

  override end(...args: readonly unknown[]): this {
    // With arguments, the whole body comes with this call, so its length is right.
    if (args.length === 0) this.strictContentLength = true;
    return Reflect.apply(super.end, this, args);
  }
}

/** As on Bun, the address is unknown after the answer was sent, although the connection may carry another request. */
function peerOf(socket: Socket, outgoing: ServerResponse): Peer {
  return { address: () => (outgoing.closed ? "" : (socket.remoteAddress ?? "")) };
}

/** The open connections, and the number of requests in progress on each. */
class Connections {
  readonly #open = new Map<Socket, number>();
  #isStopping = false;

  add(socket: Socket): void {
    this.#open.set(socket, 0);
    socket.once("close", () => this.#open.delete(socket));
  }

  begin(socket: Socket, outgoing: ServerResponse): void {
    this.#open.set(socket, (this.#open.get(socket) ?? 0) + 1);
    outgoing.once("close", () => {
      const left = (this.#open.get(socket) ?? 1) - 1;
      if (this.#open.has(socket)) this.#open.set(socket, left);
      // Not `destroy`, because the end of the answer may not be sent yet.
      if (this.#isStopping && left === 0) socket.destroySoon();
    });
  }

  /** Closes idle connections now, and every other connection after its requests in progress. */
  finish(): void {
    this.#isStopping = true;
    for (const [socket, requests] of this.#open) if (requests === 0) socket.destroy();
  }

  cutOff(): void {
    for (const socket of this.#open.keys()) socket.destroy();
  }
}

async function stop(server: Server, connections: Connections, deadlineMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  connections.finish();
  const cutOff = setTimeout(() => connections.cutOff(), deadlineMs);
  await closed;
  clearTimeout(cutOff);
}

/**
 * Listens by `node:http`, with `@hono/node-server` between its messages and web-standard ones.
 *
 * What a client meets is what it meets on Bun, and that takes two things here. The address that the
 * adapter makes is built on a fixed host, since it would answer a nonsensical `Host` or a backslash by
 * itself, and nobody reads the host. And `stop` keeps its own book of connections: to Node one that has never sent
 * anything is not idle, and would hold up the stop until its deadline.
 */
import { createServer, type IncomingMessage, type Server, ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { Socket } from "node:net";
import { getRequestListener, RequestError } from "@hono/node-server";
import { lastResort } from "../last_resort.ts";
import { listenFailure } from "../listen_failure.ts";
import type { Listener, ListenOptions, Peer, TlsPair } from "../mod.ts";

/** How long a client may take to send one request, over all. */
const REQUEST_TIMEOUT_MS = 60_000;

export function listen(options: ListenOptions): Promise<Listener> {
  const connections = new Connections();
  const idleMs = options.idleTimeoutSeconds * 1_000;
  const handle = getRequestListener(
    (request, env) =>
      options.answer(request, new NodePeer(env.incoming.socket as Socket, env.outgoing as ServerResponse)),
    // By the adapter's own, of which this takes the place, what is no request is refused as well.
    {
      errorHandler: (error) =>
        error instanceof RequestError ? new Response(null, { status: 400 }) : lastResort(),
    },
  );
  const take = (incoming: IncomingMessage, outgoing: ServerResponse) => {
    connections.begin(incoming.socket, outgoing);
    incoming.headers.host = "localhost";
    incoming.url = normalise(incoming.url ?? "/");
    void handle(incoming, outgoing).catch(() => outgoing.destroy());
  };
  const settings = {
    keepAliveTimeout: idleMs,
    requestTimeout: REQUEST_TIMEOUT_MS,
    ServerResponse: WholeResponse,
  };
  const secure = options.tls && createSecureServer({ ...settings, ...toPem(options.tls) }, take);
  const server: Server = secure ?? createServer(settings, take);
  // Whatever else a client expects is no reason to refuse it.
  server.on("checkExpectation", take);
  server.timeout = idleMs;
  server.on(secure === undefined ? "connection" : "secureConnection", (socket: Socket) =>
    connections.add(socket),
  );

  const { host, port } = options;
  return new Promise((resolve, reject) => {
    // For good: an accept that fails later (no descriptors left, say) must not end the process.
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
 * The target without the host that an absolute one has, and with its backslashes as the URL standard reads
 * them: slashes, up to the query.
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
 * An answer that cuts its connection where a body that went out in parts is over before its length says so:
 * nobody shall wait for the rest of a file that cannot be read on.
 */
class WholeResponse extends ServerResponse {
  // From the first part on: only then are they counted.
  override write(...args: readonly unknown[]): boolean {
    this.strictContentLength = true;
    return Reflect.apply(super.write, this, args);
  }

  override end(...args: readonly unknown[]): this {
    // What is sent at once comes along, and is whole.
    if (args.length === 0) this.strictContentLength = true;
    return Reflect.apply(super.end, this, args);
  }
}

class NodePeer implements Peer {
  readonly #socket: Socket;
  readonly #outgoing: ServerResponse;

  constructor(socket: Socket, outgoing: ServerResponse) {
    this.#socket = socket;
    this.#outgoing = outgoing;
  }

  /** As on Bun: not known any more once the answer is out, though the connection may take another request. */
  address(): string {
    return this.#outgoing.closed ? "" : (this.#socket.remoteAddress ?? "");
  }
}

/** The open connections, and how many requests each has in hand. */
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
      // Not destroyed: the end of the answer may still be on its way out.
      if (this.#isStopping && left === 0) socket.destroySoon();
    });
  }

  /** Closes those that wait for a request now, and the others after what they have in hand. */
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

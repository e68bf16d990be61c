/**
 * A TCP proxy in front of PostgreSQL that can be made to fail as networks do. It listens on 127.0.0.1, so a service
 * reaches the test server by a `postgres://` address, as it would reach an operator's own server.
 */
import { connect, createServer, type Socket } from "node:net";
import type { DatabaseAddress } from "../../src/database/mod.ts";

export type Fault =
  | "none"
  /**
   * Connections stay open, but no byte passes either way; the proxy passes the held bytes on when the fault
   * ends.
   */
  | "stalled"
  /** New connections are accepted and closed at once; open connections are cut. */
  | "closing"
  /** The server's bytes are lost, and the client's half stays open without an answer. */
  | "half_open"
  /**
   * Like a firewall that forgets connections: after two seconds of silence, the next byte resets the
   * connection.
   */
  | "resets_idle"
  /** The same, but the connection gets no answer instead of a reset. */
  | "mutes_idle";

export const FORGOTTEN_MS = 2_000;

/** It is closed at the end of an `await using` block, too. */
export interface FaultyProxy extends AsyncDisposable {
  /** The database's address through the proxy, which another process can use, too. */
  readonly address: { readonly url: string };
  set(fault: Fault): void;
  /** `lost` counts the chunks that were dropped, `forgotten` the connections that were idle for too long. */
  stats(): {
    readonly accepted: number;
    readonly open: number;
    readonly lost: number;
    readonly forgotten: number;
  };
  close(): Promise<void>;
}

interface Link {
  readonly client: Socket;
  readonly server: Socket;
  /** When the last byte passed, in either direction. */
  heardMs: number;
  isMute: boolean;
}

/**
 * More than any test opens. The proxy closes further connections, so a client with a fault does not exhaust
 * the machine.
 */
const MAX_CONNECTIONS = 500;

/** Starts a proxy in front of the server with that address. */
export async function startFaultyProxy(
  target: DatabaseAddress,
  {
    forgottenMs = FORGOTTEN_MS,
    passes = () => true,
  }: {
    readonly forgottenMs?: number;
    /** Called for each chunk of a client, before it is passed on; it is lost if the function returns false. */
    readonly passes?: () => boolean;
  } = {},
): Promise<FaultyProxy> {
  const links = new Set<Link>();
  let fault: Fault = "none";
  let accepted = 0;
  let lost = 0;
  let forgotten = 0;

  /** Tells whether the connection was silent for so long that it counts as forgotten. */
  function isForgotten(link: Link): boolean {
    if (!fault.endsWith("_idle")) return false;
    const nowMs = performance.now();
    if (!link.isMute && nowMs - link.heardMs > forgottenMs) {
      forgotten++;
      link.isMute = true;
      if (fault === "resets_idle") link.client.resetAndDestroy();
    }
    link.heardMs = nowMs;
    return link.isMute;
  }

  const listener = createServer((client) => {
    accepted++;
    client.on("error", () => client.destroy());
    if (fault === "closing" || links.size >= MAX_CONNECTIONS) {
      client.destroy();
      return;
    }
    const server = connect(whereIs(target));
    const link: Link = { client, server, heardMs: performance.now(), isMute: false };
    links.add(link);
    server.on("error", () => client.destroy());
    const passTo = (other: Socket) => (bytes: Buffer) => {
      if (fault === "half_open" || isForgotten(link)) lost++;
      else other.write(bytes);
    };
    const toServer = passTo(server);
    client.on("data", (bytes: Buffer) => passes() && toServer(bytes));
    server.on("data", passTo(client));
    client.on("close", () => {
      links.delete(link);
      server.destroy();
    });
    server.on("close", () => fault !== "half_open" && client.destroy());
    if (fault === "stalled") pause(link);
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const bound = listener.address();
  const port = typeof bound === "object" ? bound?.port : undefined;
  async function close(): Promise<void> {
    for (const { client } of links) client.destroy();
    await new Promise((resolve) => listener.close(resolve));
  }

  return {
    address: { url: addressThrough(target, `127.0.0.1:${port}`) },
    set(next) {
      fault = next;
      for (const link of links) {
        if (next === "closing") link.client.destroy();
        else if (next === "stalled") pause(link);
        else resume(link);
      }
    },
    stats: () => ({ accepted, open: links.size, lost, forgotten }),
    close,
    [Symbol.asyncDispose]: close,
  };
}

function pause({ client, server }: Link): void {
  client.pause();
  server.pause();
}

function resume({ client, server }: Link): void {
  client.resume();
  server.resume();
}

/** Returns where to connect to a server. */
export function whereIs(target: DatabaseAddress): { path: string } | { host: string; port: number } {
  if (!("url" in target)) return { path: target.socketPath };
  const { hostname, port } = new URL(target.url);
  return { host: hostname, port: Number(port || 5432) };
}

/** Returns the address of a database through a proxy that listens there. */
export function addressThrough(target: DatabaseAddress, hostAndPort: string): string {
  if (!("url" in target)) return `postgres://${target.user}@${hostAndPort}/${target.database}`;
  const url = new URL(target.url);
  url.host = hostAndPort;
  return url.href;
}

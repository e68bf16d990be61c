/**
 * A TCP proxy in front of PostgreSQL that can be made to fail as networks do. It stands on 127.0.0.1, so
 * that a service reaches the test server by a `postgres://` address, as it would an operator's own.
 */
import { connect, createServer, type Socket } from "node:net";
import type { DatabaseAddress } from "../../src/database/mod.ts";

export type Fault =
  | "none"
  /** Connections stay open, and nothing passes either way; what was held passes when the fault ends. */
  | "stalled"
  /** New connections are accepted and closed at once; those that are open are cut. */
  | "closing"
  /** What the server says is lost, and the client's half stays open: it is never answered. */
  | "half_open"
  /** As a firewall forgets: a connection is reset at its first byte after two seconds of silence. */
  | "resets_idle"
  /** The same, but such a connection is never answered. */
  | "mutes_idle";

export const FORGOTTEN_MS = 2_000;

export interface FaultyProxy {
  /** Where the database is, seen through the proxy. */
  readonly address: DatabaseAddress;
  set(fault: Fault): void;
  /** `lost` counts the pieces that went nowhere, `forgotten` the connections that were idle for too long. */
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
  /** When a byte was seen last, of either. */
  heardMs: number;
  isMute: boolean;
}

/** More than any test opens: a client gone wild is turned away instead of exhausting the machine. */
const MAX_CONNECTIONS = 500;

/** Stands in front of the server of that address. */
export async function startFaultyProxy(
  target: DatabaseAddress,
  { forgottenMs = FORGOTTEN_MS }: { readonly forgottenMs?: number } = {},
): Promise<FaultyProxy> {
  const links = new Set<Link>();
  let fault: Fault = "none";
  let accepted = 0;
  let lost = 0;
  let forgotten = 0;

  /** Whether the connection was silent for so long that it is forgotten. */
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
    client.on("data", passTo(server));
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
    async close() {
      for (const { client } of links) client.destroy();
      await new Promise((resolve) => listener.close(resolve));
    },
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

function whereIs(target: DatabaseAddress): { path: string } | { host: string; port: number } {
  if (!("url" in target)) return { path: target.socketPath };
  const { hostname, port } = new URL(target.url);
  return { host: hostname, port: Number(port || 5432) };
}

function addressThrough(target: DatabaseAddress, hostAndPort: string): string {
  if (!("url" in target)) return `postgres://${target.user}@${hostAndPort}/${target.database}`;
  const url = new URL(target.url);
  url.host = hostAndPort;
  return url.href;
}

/**
 * The driver's pool with sockets of our own, for two things that the driver does not do (postgres 3.4.9).
 *
 * A server that accepts and closes at once is asked again without a pause, ten thousand times a second:
 * here connections are opened no faster than {@linkcode BURST_MS} allows. And a pool that is ended while
 * it connects goes on connecting, and keeps what it gets: here its sockets are destroyed with it.
 *
 * A third is mended in the driver itself, by `postgres@3.4.9.patch`: what a connection leaves behind when it is
 * lost, bytes not sent, rows of half an answer, an error not yet told, it takes for its own on the next one.
 */
import { connect, type Socket } from "node:net";
import postgres from "postgres";
import type { DatabaseAddress } from "./database.ts";
import type { Sql } from "./sql.ts";

export interface Pool {
  readonly sql: Sql;
  /** Settles everything at once, and leaves no connection behind. */
  destroy(): Promise<void>;
}

export interface PoolOptions {
  readonly maxConnections: number;
  /** The server ends a statement that takes longer. */
  readonly statementTimeoutMs: number;
  /** Told when a connection that was in use is lost. */
  readonly onLost?: () => void;
}

/** In so long a pool opens at most twice as many connections as it may have. */
const BURST_MS = 250;

export function openPool(address: DatabaseAddress, options: PoolOptions): Pool {
  const sockets = new Set<Socket>();
  let recent = 0;
  let dialled = 0;
  let destroyed = false;

  async function dial(to: Destination): Promise<Socket> {
    while (recent >= 2 * options.maxConnections && !destroyed) await sleep(BURST_MS);
    if (destroyed) throw Object.assign(new Error("The pool was destroyed"), { code: "CONNECTION_DESTROYED" });
    recent++;
    setTimeout(() => recent--, BURST_MS).unref();
    // An address may name several servers: they are tried in turn.
    const turn = dialled++ % to.host.length;
    const host = to.host[turn] ?? "localhost";
    const port = to.port[turn] ?? 5432;
    const socket = to.path ? connect(to.path) : connect({ host, port });
    for (const old of sockets) if (old.destroyed) sockets.delete(old);
    sockets.add(socket);
    const failure = await failureOf(socket);
    // Told a turn later: the driver listens only once it has the socket.
    if (failure !== undefined) {
      setImmediate(() => socket.emit("error", failure) && socket.emit("close", true));
    }
    // For the name in the server's certificate, where the driver looks for it.
    return Object.assign(socket, { host, port });
  }

  const driverOptions = { ...toDriverOptions(address, options), socket: dial };
  const sql: Sql = "url" in address ? postgres(address.url, driverOptions) : postgres(driverOptions);
  return {
    sql,
    async destroy() {
      destroyed = true;
      await sql.end({ timeout: 0 });
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Resolves when the socket is connected, or to why it is not. */
function failureOf(socket: Socket): Promise<Error | undefined> {
  return new Promise((resolve) => {
    let failure = Object.assign(new Error("The connection was closed"), { code: "CONNECTION_CLOSED" });
    socket.once("connect", () => resolve(undefined));
    socket.once("error", (error) => {
      failure = Object.assign(error, { code: "code" in error ? String(error.code) : "CONNECTION_CLOSED" });
    });
    socket.once("close", () => resolve(failure));
  });
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** What the driver tells its `socket` option of the address, which it has read. */
interface Destination {
  readonly host: readonly string[];
  readonly port: readonly number[];
  readonly path: string | false | undefined;
}

type DriverOptions = postgres.Options<{ bigint: postgres.PostgresType<number> }> & {
  /** Known to the driver, missing in its types. */
  max_pipeline: number;
  socket?: (to: Destination) => Promise<Socket>;
};

function toDriverOptions(address: DatabaseAddress, options: PoolOptions): DriverOptions {
  return {
    ...("url" in address
      ? {}
      : { path: address.socketPath, user: address.user, database: address.database, ssl: false }),
    max: options.maxConnections,
    // One statement behind another at most: behind a slow one, more would wait without need.
    max_pipeline: 1,
    connect_timeout: 3,
    idle_timeout: 0,
    max_lifetime: null,
    backoff: (retries: number) => Math.min(0.05 * 2 ** retries, 0.5),
    // Arrays travel as text (see toTextArray), so the catalogue of types is not asked for.
    fetch_types: false,
    // Counts stay below 2^53, as the constraints on them say, and so are exact as numbers.
    types: { bigint: { to: 20, from: [20], parse: Number, serialize: String } },
    connection: {
      application_name: "claviger",
      statement_timeout: options.statementTimeoutMs,
      TimeZone: "UTC",
      client_min_messages: "warning",
    },
    onnotice: () => {},
    onclose: () => options.onLost?.(),
  };
}

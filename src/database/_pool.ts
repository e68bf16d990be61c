/**
 * The driver's pool with sockets of our own, for what the driver does not do (postgres 3.4.9).
 *
 * A server that accepts and closes at once is asked again without a pause, ten thousand times a second:
 * here connections are opened no faster than {@linkcode BURST_MS} allows. A pool that is ended while
 * it connects goes on connecting, and keeps what it gets: here its sockets are destroyed with it. And the driver
 * forgets which of several servers is the primary: here `_servers.ts` remembers it.
 *
 * The rest is mended in the driver itself, by `postgres@3.4.9.patch`. What a connection leaves behind when it is
 * lost, bytes not sent, rows of half an answer, an error not yet told, it takes for its own on the next one. A
 * connection that was idle for long, or since another was lost, is given a statement only after its server has
 * answered a `Sync`: so none is sent into a connection that a firewall has forgotten or a failover has ended. And
 * a standby is refused by an error of its own.
 */
import { connect, type Socket } from "node:net";
import postgres from "postgres";
import { codeOf } from "../system_error.ts";
import { serversOf } from "./_servers.ts";
import { tlsOf } from "./_tls.ts";
import type { DatabaseAddress } from "./database_url.ts";
import { parseDatabaseUrl } from "./database_url.ts";
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
  /**
   * Whether an idle connection is checked before its next statement, and replaced when it is dead. Not for
   * transactions: they cannot go on on another connection.
   */
  readonly checksIdle?: boolean;
  /** Called when a connection is lost, or could not be made. */
  readonly onLost?: () => void;
}

/** In so long a pool opens at most twice as many connections as it may have. */
const BURST_MS = 250;
/** For connecting to one server; the server then has as long again to let the connection in. */
const CONNECT_TIMEOUT_MS = 1_000;
/** A connection that ends sooner was not let in: the next one goes to the next server. */
const YOUNG_MS = 2 * CONNECT_TIMEOUT_MS;
/** Firewalls forget a connection after a minute at the earliest. */
const KEEP_ALIVE_MS = 15_000;
/** Idle for so long, a connection is checked before its next statement. */
const IDLE_SECONDS = 1;
/** A check that is not answered so soon counts as failed: a statement's deadline must leave time for the next. */
const CHECK_SECONDS = 0.25;

export function openPool(address: DatabaseAddress, options: PoolOptions): Pool {
  const servers = serversOf(address);
  const sockets = new Set<Socket>();
  let recent = 0;
  let destroyed = false;

  /** Connects to the first server that accepts, beginning with the one that is current. */
  async function dial(): Promise<Socket> {
    while (recent >= 2 * options.maxConnections && !destroyed) await sleep(BURST_MS);
    if (destroyed) throw Object.assign(new Error("The pool was destroyed"), { code: "CONNECTION_DESTROYED" });
    recent++;
    setTimeout(() => recent--, BURST_MS).unref();
    for (let tried = 1; ; tried++) {
      const { current, place } = servers;
      const socket = connect({ ...place, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS });
      for (const old of sockets) if (old.destroyed) sockets.delete(old);
      sockets.add(socket);
      const failure = await failureOf(socket);
      if (failure === undefined) {
        const openedMs = performance.now();
        socket.once("close", () => {
          if (!destroyed && performance.now() - openedMs < YOUNG_MS) servers.moveOn(current);
        });
      } else {
        servers.moveOn(current);
        if (tried < servers.count && !destroyed) continue;
        // Told a turn later: the driver listens only once it has the socket.
        setImmediate(() => socket.emit("error", failure) && socket.emit("close", true));
      }
      // For the name in the server's certificate, where the driver looks for it.
      return Object.assign(socket, place);
    }
  }

  const driverOptions = { ...toDriverOptions(address, options), socket: dial };
  const url = "url" in address ? parseDatabaseUrl(address.url) : undefined;
  const tls = url && tlsOf(url);
  const sql: Sql = tls ? postgres(tls.href, { ...driverOptions, ssl: tls.ssl }) : postgres(driverOptions);
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
    const timer = setTimeout(() => {
      socket.destroy(Object.assign(new Error("The server does not answer"), { code: "CONNECT_TIMEOUT" }));
    }, CONNECT_TIMEOUT_MS);
    socket.once("connect", () => {
      clearTimeout(timer);
      resolve(undefined);
    });
    socket.once("error", (error) => {
      failure = Object.assign(error, { code: codeOf(error) ?? "CONNECTION_CLOSED" });
    });
    socket.once("close", () => {
      clearTimeout(timer);
      resolve(failure);
    });
  });
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

type DriverOptions = postgres.Options<{ bigint: postgres.PostgresType<number> }> & {
  /** Known to the driver, missing in its types. */
  max_pipeline: number;
  socket?: () => Promise<Socket>;
  /** By our patch. */
  check_idle?: { readonly after: number; readonly timeout: number };
};

function toDriverOptions(address: DatabaseAddress, options: PoolOptions): DriverOptions {
  return {
    ...("url" in address
      ? {}
      : { path: address.socketPath, user: address.user, database: address.database, ssl: false }),
    max: options.maxConnections,
    // One statement behind another at most: behind a slow one, more would wait without need.
    max_pipeline: 1,
    connect_timeout: CONNECT_TIMEOUT_MS / 1_000,
    ...(options.checksIdle && { check_idle: { after: IDLE_SECONDS, timeout: CHECK_SECONDS } }),
    target_session_attrs: "primary",
    // Set when a socket is made.
    keep_alive: null,
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

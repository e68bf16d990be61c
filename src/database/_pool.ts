/**
 * The driver's pool (postgres 3.4.9) with sockets that this file opens, because the driver has three faults:
 *
 * - When a server accepts a connection and closes it at once, the driver reconnects without a pause, ten thousand
 *   times a second. Here connections are opened no faster than {@linkcode BURST_MS} allows.
 * - A pool that is ended while it connects goes on connecting and keeps the new connection. Here the sockets are
 *   destroyed with the pool.
 * - The driver forgets which of several servers is the primary. Here `_servers.ts` remembers it.
 *
 * `postgres@3.4.9.patch` corrects three more faults in the driver itself:
 *
 * - After a lost connection the driver used its leftovers on the next connection: unsent bytes, rows of an
 *   incomplete answer, an unreported error.
 * - The driver did not check idle connections. Now a connection that was idle for {@linkcode IDLE_SECONDS}, or was
 *   idle when another connection was lost, gets a statement only after its server has answered a `Sync`. So no
 *   statement is sent on a connection that a firewall has forgotten or a failover has ended.
 * - The refusal of a standby had no error code of its own.
 */

import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import postgres from "postgres";
import { codeOf } from "../base/system_error.ts";
import type { Servers } from "./_servers.ts";
import { tlsOf } from "./_tls.ts";
import { type DatabaseAddress, isInsideAddress, parseDatabaseUrl } from "./database_url.ts";
import type { Sql } from "./sql.ts";

export type Pool = ReturnType<typeof openPool>;

interface PoolOptions {
  readonly servers: Servers;
  readonly maxConnections: number;
  /** The server cancels a statement that takes longer. */
  readonly statementTimeoutMs: number;
  /**
   * Whether an idle connection is checked before its next statement, and replaced when it is dead. Off for
   * transactions, because a transaction cannot continue on another connection.
   */
  readonly checksIdle?: boolean;
  /** Called when a connection was lost or could not be opened. */
  readonly onLost?: () => void;
}

/** In this time a pool opens at most `2 * maxConnections` connections. */
const BURST_MS = 250;
/** The deadline of the TCP connection to one server. The login to PostgreSQL then has the same time again. */
const CONNECT_TIMEOUT_MS = 1_000;
/** A connection that ends sooner was not let in: the next connection goes to the next server. */
const YOUNG_MS = 2 * CONNECT_TIMEOUT_MS;
/** Firewalls forget a connection after a minute at the earliest. */
const KEEP_ALIVE_MS = 15_000;
/** A connection that was idle for this time is checked before its next statement. */
const IDLE_SECONDS = 1;
/** The deadline of such a check: short, so that the statement can still be sent on another connection in time. */
const CHECK_SECONDS = 0.25;

/** Opens a pool. It connects with its first statement. */
export function openPool(address: DatabaseAddress, options: PoolOptions) {
  const { servers } = options;
  const sockets = new Set<Socket>();
  let recentlyOpened = 0;
  let destroyed = false;

  /** Connects to the first server that accepts, beginning with the current server. */
  async function dial(): Promise<Socket> {
    while (recentlyOpened >= 2 * options.maxConnections && !destroyed) await sleep(BURST_MS);
    if (destroyed) throw Object.assign(new Error("The pool was destroyed"), { code: "CONNECTION_DESTROYED" });
    recentlyOpened++;
    setTimeout(() => recentlyOpened--, BURST_MS).unref();
    for (let tried = 1; ; tried++) {
      const { current, target } = servers;
      const socket = connect({ ...target, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS });
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
        // Emitted one turn later, because the driver adds its listeners after it has the socket.
        setImmediate(() => socket.emit("error", failure) && socket.emit("close", true));
      }
      // The driver reads `host` of the socket to check the name in the server's certificate.
      return Object.assign(socket, target);
    }
  }

  const driverOptions = { ...toDriverOptions(address, options), socket: dial };
  const url = isInsideAddress(address) ? undefined : parseDatabaseUrl(address.url);
  const tls = url && tlsOf(url);
  const sql: Sql = tls ? postgres(tls.href, { ...driverOptions, ssl: tls.ssl }) : postgres(driverOptions);
  return {
    sql,
    /** Settles all statements and closes all connections at once. */
    async destroy(): Promise<void> {
      destroyed = true;
      await sql.end({ timeout: 0 });
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Resolves to undefined when the socket is connected, or to the error that prevented it. */
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

type DriverOptions = postgres.Options<{ bigint: postgres.PostgresType<number> }> & {
  /** The driver has this option, but its types do not. */
  max_pipeline: number;
  socket?: () => Promise<Socket>;
  /** Added by our patch. Both are in seconds. */
  check_idle?: { readonly after: number; readonly timeout: number };
};

function toDriverOptions(address: DatabaseAddress, options: PoolOptions): DriverOptions {
  return {
    ...(isInsideAddress(address) && {
      path: address.socketPath,
      user: address.user,
      database: address.database,
      ssl: false,
    }),
    max: options.maxConnections,
    // At most one statement waits behind another on a connection. Otherwise several would wait behind a slow one, even
    // when another connection gets free.
    max_pipeline: 1,
    connect_timeout: CONNECT_TIMEOUT_MS / 1_000,
    ...(options.checksIdle && { check_idle: { after: IDLE_SECONDS, timeout: CHECK_SECONDS } }),
    target_session_attrs: "primary",
    // Off here, because `dial` sets it when it opens the socket.
    keep_alive: null,
    idle_timeout: 0,
    max_lifetime: null,
    backoff: (retries: number) => Math.min(0.05 * 2 ** retries, 0.5),
    // Arrays are sent as text (see toTextArray), so the driver need not read the catalogue of types.
    fetch_types: false,
    // Constraints keep counts below 2^53, so they are exact as numbers.
    types: { bigint: { to: 20, from: [20], parse: Number, serialize: String } },
    connection: {
      application_name: "claviger",
      statement_timeout: options.statementTimeoutMs,
      TimeZone: "UTC",
      client_min_messages: "warning",
      // Distributions build PostgreSQL with a compiler for plans. Where a table has no statistics yet, it compiled each
      // statement of a list for 0.2 s, which then ran for some milliseconds.
      jit: "off",
    },
    onnotice: () => {},
    onclose: () => options.onLost?.(),
  };
}

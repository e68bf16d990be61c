/**
 * A pool on which every statement has a deadline.
 *
 * The driver waits forever for a peer that accepts a connection and never answers, and keeps a connection that is
 * half open. So when a statement misses its deadline, a new pool replaces the whole pool at once. The old pool may
 * finish its statements for one more deadline. A new pool answers in some 15 ms. The server's own limit is a little
 * shorter, so a statement that is only slow does not cause a new pool.
 *
 * A statement that was not sent, because the server let no connection in, is tried on each server of the address. A
 * read whose connection is lost is repeated once. A write fails, because its effect is unknown. An idle connection
 * is checked before it is used (see `_pool.ts`), so no statement fails because its connection was lost while idle.
 *
 * Only single statements run here. A transaction that is open while the database restarts makes this driver hang
 * forever (postgres 3.4.9 on Bun 1.4.5). Changes that must be atomic are one statement with several `with` clauses.
 */
import type postgres from "postgres";
import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/log.ts";
import { openPool, type Pool } from "./_pool.ts";
import { wasNotSent } from "./_servers.ts";
import { type DatabaseAddress, isInsideAddress, serversOf } from "./database_url.ts";
import { DatabaseUnavailable, isLost, toDatabaseError } from "./errors.ts";
import type { Sql } from "./sql.ts";

interface QueryOptions {
  /** How long the caller waits; `deadlineMs` of the database by default. */
  readonly deadlineMs?: number;
  /**
   * Whether the statement only reads. A read whose connection is lost is sent once more, on another connection. A
   * write is never sent again, because it may have taken effect.
   */
  readonly isRead?: boolean;
}

export interface Database extends AsyncDisposable {
  /**
   * Runs one statement. Throws {@linkcode DatabaseUnavailable} at the deadline or when the server cannot
   * be reached, and the driver's own error when the server refuses the statement.
   */
  query<Row extends object>(
    build: (sql: Sql) => postgres.PendingQuery<Row[]> | postgres.PendingQuery<postgres.Row[]>,
    options?: QueryOptions,
  ): Promise<Row[]>;
  /** Runs one statement that only reads, with {@linkcode QueryOptions.isRead}. */
  read: Database["query"];
  /** Opens new connections for all further statements. Running statements may finish on the old connections. */
  renew(): void;
  stats(): {
    /** The largest number of connections, not the number that is open. */
    readonly connections: number;
    readonly statements: number;
    /** The statements that have no answer yet and have not reached their deadline. */
    readonly running: number;
    readonly deadlinesMissed: number;
    readonly poolsReplaced: number;
  };
  /** Closes all connections at once: statements that still run fail. */
  close(): Promise<void>;
}

interface DatabaseOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** 8 by default. */
  readonly maxConnections?: number;
  /**
   * The longest that a statement may take, at the client and at the server; 1,500 ms by default, so that a
   * request that needs two of them is still answered within 5 s.
   */
  readonly deadlineMs?: number;
}

const DEADLINE_MS = 1_500;
/** The server's limit for a statement, as a share of the deadline. */
const SERVER_SHARE = 0.9;
/** The least time between two replacements of the pool; without it a slow server would get very many connections. */
const REPLACEMENT_PAUSE_MS = 500;

/**
 * Opens the database. It connects with the first statement.
 *
 * One long function, because its closures share the pools and the counters, and a statement needs both.
 *
 * @example
 * ```ts
 * const database = openDatabase(address, { clock: systemClock, log: silentLog });
 * const keys = await database.query<{ hint: string }>((sql) => sql`select hint from keys where mode = ${"live"}`);
 * keys.map(({ hint }) => hint); // []
 * await database.close();
 * ```
 */
export function openDatabase(address: DatabaseAddress, options: DatabaseOptions): Database {
  const { clock, log } = options;
  const { maxConnections = 8, deadlineMs: standardDeadlineMs = DEADLINE_MS } = options;
  const servers = serversOf(address);
  const isInside = isInsideAddress(address);
  const poolOptions = {
    servers,
    maxConnections,
    statementTimeoutMs: Math.floor(standardDeadlineMs * SERVER_SHARE),
    checksIdle: true,
  };
  const pools = createPools(() => openPool(address, poolOptions), standardDeadlineMs);
  let replacedMs = Number.NEGATIVE_INFINITY;
  let statements = 0;
  let unsettled = 0;
  let deadlinesMissed = 0;
  let poolsReplaced = 0;
  let isSilent = false;
  let closed = false;

  function replacePool(missed: Pool) {
    if (closed || missed !== pools.current || clock.monotonicMs() - replacedMs < REPLACEMENT_PAUSE_MS) return;
    replacedMs = clock.monotonicMs();
    poolsReplaced++;
    // While the database does not answer, each new pool stalls, too: one log line is enough.
    if (!isSilent) log.warn("A statement missed its deadline: opening new connections to the database");
    isSilent = true;
    pools.renew();
  }

  return {
    query(build, { deadlineMs = standardDeadlineMs, isRead = false } = {}) {
      return new Promise((resolve, reject) => {
        let used = pools.current;
        let tries = 0;
        let repeats = isRead ? 1 : 0;
        let isSettled = false;
        const settle = () => {
          clearTimeout(timer);
          // A late answer was already rejected at its deadline: do not count it twice.
          if (!isSettled) unsettled--;
          isSettled = true;
        };
        const send = () => {
          used = pools.current;
          tries++;
          const server = servers.current;
          build(used.sql).then(
            (rows) => {
              isSilent = false;
              settle();
              resolve(rows as never);
            },
            (error) => {
              const failure = toDatabaseError(error, { isInside });
              if (mayResend(failure, server) && !isSettled && !closed) return send();
              settle();
              reject(failure);
            },
          );
        };
        const mayResend = (failure: unknown, server: number) => {
          if (!(failure instanceof DatabaseUnavailable)) return false;
          if (!wasNotSent(failure)) return isLost(failure) && repeats-- > 0;
          servers.moveOn(server);
          return tries < servers.count;
        };
        send();
        statements++;
        unsettled++;
        const timer = setTimeout(() => {
          settle();
          deadlinesMissed++;
          replacePool(used);
          reject(new DatabaseUnavailable("deadline", { isInside }));
        }, deadlineMs);
      });
    },
    read(build, options) {
      return this.query(build, { ...options, isRead: true });
    },
    renew() {
      if (!closed) pools.renew();
    },
    stats: () => ({
      connections: maxConnections,
      statements,
      running: unsettled,
      deadlinesMissed,
      poolsReplaced,
    }),
    async close() {
      closed = true;
      await pools.close();
    },
    [Symbol.asyncDispose]() {
      return this.close();
    },
  };
}

function createPools(open: () => Pool, retiredForMs: number) {
  let current = open();
  /** The old pools with the timers that will close them. */
  const retired = new Map<Pool, ReturnType<typeof setTimeout>>();
  return {
    get current() {
      return current;
    },
    /** Opens another pool. The old pool is closed later, so that it can finish its statements. */
    renew() {
      const old = current;
      current = open();
      const end = () => {
        retired.delete(old);
        old.destroy().catch(() => {});
      };
      retired.set(old, setTimeout(end, retiredForMs));
    },
    async close() {
      for (const timer of retired.values()) clearTimeout(timer);
      await Promise.all([current, ...retired.keys()].map((pool) => pool.destroy()));
    },
  };
}

/**
 * A pool on which every statement has a deadline.
 *
 * The driver waits forever on a peer that accepts and says nothing, and keeps a connection that is half
 * open. So a statement that misses its deadline costs the whole pool: a new one takes its place at once
 * and the old one gets until the deadline to finish what it holds. A new pool answers in some 15 ms.
 * The server's own limit is a little shorter: a slow statement, as opposed to a lost one, costs no pool.
 *
 * A statement that was not sent, because the server let no connection in, is tried on each server of the address. A
 * read whose connection is lost is repeated once; nobody knows what became of a write, so it fails. An idle
 * connection is checked before it is used (see `_pool.ts`), so a connection that died while idle costs no statement.
 *
 * Only single statements run here. A transaction that is open while the database restarts hangs this
 * driver for good (postgres 3.4.9 on Bun 1.4.5); what must be atomic is one statement with `with` parts.
 */
import type postgres from "postgres";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import { openPool, type Pool } from "./_pool.ts";
import { serversOf, wasNotSent } from "./_servers.ts";
import type { DatabaseAddress } from "./database_url.ts";
import { DatabaseUnavailable, isLost, toDatabaseError } from "./errors.ts";
import type { Sql } from "./sql.ts";

export interface QueryOptions {
  /** How long the caller waits; the database's own deadline by default. */
  readonly deadlineMs?: number;
  /**
   * Whether the statement changes nothing: when its connection is lost, it is sent once more on another. A statement
   * that changes something is never sent again, because nobody knows whether it took effect.
   */
  readonly isRead?: boolean;
}

export interface Database {
  /**
   * Runs one statement. Throws {@linkcode DatabaseUnavailable} at the deadline or when the server cannot
   * be reached, and the driver's own error when the server refuses the statement.
   */
  query<Row extends object>(
    build: (sql: Sql) => postgres.PendingQuery<Row[]> | postgres.PendingQuery<postgres.Row[]>,
    options?: QueryOptions,
  ): Promise<Row[]>;
  /** Goes on with new connections; statements that run may still finish on the old ones. */
  renew(): void;
  stats(): DatabaseStats;
  /** Settles everything at once: what is still running fails. */
  close(): Promise<void>;
}

export interface DatabaseStats {
  /** The most that there may be. */
  readonly connections: number;
  readonly statements: number;
  /** Of these, how many are not answered yet, and not past their deadline. */
  readonly running: number;
  readonly deadlinesMissed: number;
  readonly poolsReplaced: number;
}

export interface DatabaseOptions {
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
/** Of a statement's deadline, what the server gets. */
const SERVER_SHARE = 0.9;
/** Pools are replaced at most so often, or a slow server would be met with a storm of connections. */
const REPLACEMENT_PAUSE_MS = 500;

/** Stays one long function: its closures share the pools and the counts, and a statement needs both. */
export function openDatabase(address: DatabaseAddress, options: DatabaseOptions): Database {
  const { clock, log } = options;
  const { maxConnections = 8, deadlineMs: standardDeadlineMs = DEADLINE_MS } = options;
  const poolOptions = {
    maxConnections,
    statementTimeoutMs: Math.floor(standardDeadlineMs * SERVER_SHARE),
    checksIdle: true,
  };
  const servers = serversOf(address);
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
    // While the database is gone, each new pool stalls as well: one line is enough.
    if (!isSilent) log.warn("A statement missed its deadline: the connections to the database are made anew");
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
          // What is answered after its deadline was settled then.
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
              const failure = toDatabaseError(error);
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
          reject(new DatabaseUnavailable("deadline"));
        }, deadlineMs);
      });
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
  };
}

interface Pools {
  readonly current: Pool;
  /** Opens another pool; the one before ends later, so that it can finish what it had begun. */
  renew(): void;
  close(): Promise<void>;
}

function createPools(open: () => Pool, retiredForMs: number): Pools {
  let current = open();
  /** With the timers of their end. */
  const retired = new Map<Pool, ReturnType<typeof setTimeout>>();
  return {
    get current() {
      return current;
    },
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

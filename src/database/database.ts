/**
 * A pool on which every statement has a deadline.
 *
 * The driver waits forever on a peer that accepts and says nothing, and keeps a connection that is half
 * open. So a statement that misses its deadline costs the whole pool: a new one takes its place at once
 * and the old one gets a moment to finish what it holds. A new pool answers in some 15 ms.
 *
 * Only single statements run here. A transaction that is open while the database restarts hangs this
 * driver for good (postgres 3.4.9 on Bun 1.4.5); what must be atomic is one statement with `with` parts.
 */
import postgres from "postgres";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import { DatabaseUnavailable, toDatabaseError } from "./errors.ts";
import type { Sql } from "./sql.ts";

/** Where a database is: a `postgres://` address, or the socket of the server inside. */
export type DatabaseAddress =
  | { readonly url: string }
  | { readonly socketPath: string; readonly user: string; readonly database: string };

export interface QueryOptions {
  /** How long the caller waits; the database's own deadline by default. */
  readonly deadlineMs?: number;
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
  stats(): { readonly connections: number; readonly deadlinesMissed: number; readonly poolsReplaced: number };
  /** Settles everything at once: what is still running fails. */
  close(): Promise<void>;
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
/** How long a pool that was replaced may still finish what it had begun. */
const RETIREMENT_SECONDS = 5;
/** Pools are replaced at most so often, or a slow server would be met with a storm of connections. */
const REPLACEMENT_PAUSE_MS = 500;

export function openDatabase(address: DatabaseAddress, options: DatabaseOptions): Database {
  const { clock, log } = options;
  const { maxConnections = 8, deadlineMs: standardDeadlineMs = DEADLINE_MS } = options;
  const driverOptions = toDriverOptions(address, { maxConnections, statementTimeoutMs: standardDeadlineMs });
  let pool = openPool(address, driverOptions);
  let replacedMs = Number.NEGATIVE_INFINITY;
  let deadlinesMissed = 0;
  let poolsReplaced = 0;
  let closed = false;

  function replacePool(missed: Sql) {
    if (closed || missed !== pool || clock.monotonicMs() - replacedMs < REPLACEMENT_PAUSE_MS) return;
    replacedMs = clock.monotonicMs();
    poolsReplaced++;
    log.warn("A statement missed its deadline: the connections to the database are made anew");
    pool = openPool(address, driverOptions);
    missed.end({ timeout: RETIREMENT_SECONDS }).catch(() => {});
  }

  return {
    query(build, { deadlineMs = standardDeadlineMs } = {}) {
      const used = pool;
      return new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          deadlinesMissed++;
          replacePool(used);
          reject(new DatabaseUnavailable("deadline"));
        }, deadlineMs);
        build(used).then(
          (rows) => {
            clearTimeout(timer);
            resolve(rows as never);
          },
          (error) => {
            clearTimeout(timer);
            reject(toDatabaseError(error));
          },
        );
      });
    },
    stats: () => ({ connections: maxConnections, deadlinesMissed, poolsReplaced }),
    async close() {
      closed = true;
      await pool.end({ timeout: 0 });
    },
  };
}

function openPool(address: DatabaseAddress, options: DriverOptions): Sql {
  return "url" in address ? postgres(address.url, options) : postgres(options);
}

type DriverOptions = postgres.Options<{ bigint: postgres.PostgresType<number> }> & {
  /** Known to the driver, missing in its types. */
  max_pipeline: number;
};

/** The driver's options for an address: shared with {@linkcode openSession}. */
export function toDriverOptions(
  address: DatabaseAddress,
  options: { readonly maxConnections: number; readonly statementTimeoutMs: number },
): DriverOptions {
  return {
    ...("url" in address
      ? {}
      : { path: address.socketPath, user: address.user, database: address.database, ssl: false }),
    max: options.maxConnections,
    // One statement a connection: behind a slow one, the others would wait without need.
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
  };
}

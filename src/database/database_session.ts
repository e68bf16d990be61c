/**
 * A session: one connection with transactions, for migrations and one-shot commands. Never use it on the serving
 * path; `database.ts` gives the reason.
 */
import { openPool } from "./_pool.ts";
import { wasNotSent } from "./_servers.ts";
import { type DatabaseAddress, isInsideAddress, serversOf } from "./database_url.ts";
import { DatabaseUnavailable, toDatabaseError } from "./errors.ts";
import type { Sql } from "./sql.ts";

export type DatabaseSession = ReturnType<typeof openSession>;

const CONNECT_DEADLINE_MS = 5_000;

/**
 * Opens a session whose statements may each take up to `statementTimeoutMs`. A lost connection ends the session:
 * later statements on a new connection would not be in the same transaction.
 *
 * One long function, because its closures share the connection and the promise of its loss.
 */
export function openSession(
  address: DatabaseAddress,
  {
    statementTimeoutMs,
    connectDeadlineMs = CONNECT_DEADLINE_MS,
  }: { readonly statementTimeoutMs: number; readonly connectDeadlineMs?: number },
) {
  let lose: (reason: DatabaseUnavailable) => void = () => {};
  const lost = new Promise<never>((_, reject) => {
    lose = reject;
  });
  lost.catch(() => {});
  let isConnecting = false;
  const servers = serversOf(address);
  const isInside = isInsideAddress(address);
  const pool = openPool(address, {
    servers,
    maxConnections: 1,
    statementTimeoutMs,
    onLost() {
      if (isConnecting) return;
      lose(new DatabaseUnavailable("CONNECTION_CLOSED", { isInside }));
      void pool.destroy();
    },
  });

  async function connect() {
    const timer = setTimeout(
      () => lose(new DatabaseUnavailable("CONNECT_TIMEOUT", { isInside })),
      connectDeadlineMs,
    );
    isConnecting = true;
    try {
      await Promise.race([findPrimary(), lost]);
    } finally {
      isConnecting = false;
      clearTimeout(timer);
    }
  }

  /** Tries each server once; a server that does not answer is tried again until the deadline. */
  async function findPrimary() {
    for (let tries = 1; ; tries++) {
      const server = servers.current;
      try {
        await pool.sql`select`;
        return;
      } catch (error) {
        const failure = toDatabaseError(error, { isInside });
        if (!(failure instanceof DatabaseUnavailable) || !wasNotSent(failure)) throw failure;
        servers.moveOn(server);
        if (tries >= servers.count && failure.code !== "CONNECT_TIMEOUT") throw failure;
      }
    }
  }

  return {
    sql: pool.sql,
    /** Connects. Throws {@linkcode DatabaseUnavailable} if the server does not let the session in. */
    connect,
    /** Runs `work` in one transaction: all of it takes effect, or nothing. Connects first if needed. */
    async transaction<Result>(work: (sql: Sql) => Promise<Result>): Promise<Result> {
      await connect();
      // The driver's own `begin` never settles when its connection is lost, and throws an error that no caller can
      // catch.
      try {
        await Promise.race([pool.sql`begin`, lost]);
        const result = await Promise.race([work(pool.sql), lost]);
        await Promise.race([pool.sql`commit`, lost]);
        return result;
      } catch (error) {
        await Promise.race([pool.sql`rollback`, lost]).catch(() => {});
        throw toDatabaseError(error, { isInside });
      }
    },
    close: () => pool.destroy(),
    [Symbol.asyncDispose]: () => pool.destroy(),
  };
}

/**
 * One connection of its own with transactions, for migrations and one-shot commands: never for the
 * serving path (see `database.ts` for why).
 */
import postgres from "postgres";
import { type DatabaseAddress, toDriverOptions } from "./database.ts";
import { toDatabaseError } from "./errors.ts";
import type { Sql } from "./sql.ts";

export interface Session {
  readonly sql: Sql;
  /** Runs `work` in one transaction: all of it or nothing. */
  transaction<Result>(work: (sql: Sql) => Promise<Result>): Promise<Result>;
  close(): Promise<void>;
}

/** Opens a session whose statements may each take up to `statementTimeoutMs`. */
export function openSession(
  address: DatabaseAddress,
  options: { readonly statementTimeoutMs: number },
): Session {
  const driverOptions = toDriverOptions(address, { maxConnections: 1, ...options });
  const sql: Sql = "url" in address ? postgres(address.url, driverOptions) : postgres(driverOptions);
  return {
    sql,
    async transaction(work) {
      try {
        // The driver's transaction has the template but not the pool's own methods, which nobody needs here.
        return (await sql.begin((inner) => work(inner as unknown as Sql))) as never;
      } catch (error) {
        throw toDatabaseError(error);
      }
    },
    close: () => sql.end({ timeout: 1 }),
  };
}

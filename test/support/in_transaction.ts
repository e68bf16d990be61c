import { type Database, type DatabaseAddress, openSession, type Sql } from "../../src/database/mod.ts";
import { countWaiting } from "./count_waiting.ts";
import type { TestDatabase } from "./database.ts";
import { until } from "./until.ts";

/** Runs `work` in a transaction on a connection of its own, as another process would, and closes the connection. */
export async function inTransaction<Result>(
  address: DatabaseAddress,
  work: (sql: Sql) => Promise<Result>,
): Promise<Result> {
  const session = openSession(address, { statementTimeoutMs: 30_000 });
  try {
    return await session.transaction(work);
  } finally {
    await session.close();
  }
}

/** Returns a database whose statements are part of a transaction. */
export function databaseOf(sql: Sql, database: Database): Database {
  return { ...database, query: (build: (sql: Sql) => unknown) => build(sql) } as Database;
}

/**
 * Makes the change `first` in a transaction, starts `second`, and commits when `second` waits for a lock. So `second`
 * begins before the change and ends after it. Returns its outcome.
 */
export async function overtake<Outcome>(
  { address, database }: Pick<TestDatabase, "address" | "database">,
  first: (sql: Sql) => Promise<unknown>,
  second: () => Promise<Outcome>,
): Promise<Outcome> {
  const waiting = await inTransaction(address, async (sql) => {
    await first(sql);
    const outcome = second();
    await until(async () => (await countWaiting(database)) > 0);
    return { outcome };
  });
  return await waiting.outcome;
}

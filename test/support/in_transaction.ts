import { type DatabaseAddress, openSession, type Sql } from "../../src/database/mod.ts";

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

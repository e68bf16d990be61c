import { type DatabaseAddress, openSession, type Sql } from "../../database/mod.ts";

/**
 * Runs `work` in one transaction on a session that only `work` uses. At the end it closes the session, which also ends
 * a `copy` that is still in progress. If `work` throws, its own error is thrown, and not that of the database, because
 * the cause may be a file.
 */
export async function inTransaction<Result>(
  address: DatabaseAddress,
  work: (sql: Sql) => Promise<Result>,
): Promise<Result> {
  await using session = openSession(address, { statementTimeoutMs: 0 });
  let failure: { readonly error: unknown } | undefined;
  try {
    return await session.transaction(async (sql) => {
      try {
        return await work(sql);
      } catch (error) {
        failure = { error };
        throw error;
      }
    });
  } catch (error) {
    throw failure === undefined ? error : failure.error;
  }
}

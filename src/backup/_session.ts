import { type DatabaseAddress, openSession, type Sql } from "../database/mod.ts";

/**
 * Runs `work` in one transaction on its own session, and then closes the session, because a `copy` may still be in
 * progress. Throws the error of `work` unchanged, because its cause may be a file and not the database.
 */
export async function inTransaction<Result>(
  address: DatabaseAddress,
  work: (sql: Sql) => Promise<Result>,
): Promise<Result> {
  const session = openSession(address, { statementTimeoutMs: 0 });
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
  } finally {
    await session.close();
  }
}

export const LOCKED = "another process is changing the tables; try again when it is done";

import { type DatabaseAddress, openSession, type Sql } from "../database/mod.ts";

/**
 * Runs `work` in one transaction on a session of its own, which is closed in the end, since a `copy` may
 * still be under way. A failure is the one that `work` met: a file's is none of the database's.
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

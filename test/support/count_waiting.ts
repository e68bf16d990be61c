import type { Database } from "../../src/database/mod.ts";

/** Counts the connections to a database that wait for a lock. */
export async function countWaiting(database: Pick<Database, "query">): Promise<number> {
  const waiting = await database.query(
    (sql) => sql`
      select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  );
  return waiting.length;
}

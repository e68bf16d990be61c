import type { Database } from "../../database/mod.ts";

interface DatabaseFacts {
  /** The version of the server, such as `18.4`. */
  readonly version: string;
  readonly sizeBytes: number;
  readonly startedAt: Date;
  /** The connections of every program to the server, and how many it allows. */
  readonly connections: number;
  readonly maxConnections: number;
}

/** Returns facts about the database server, in one statement. */
export async function measureDatabase(database: Pick<Database, "read">): Promise<DatabaseFacts> {
  const [row] = await database.read<DatabaseFacts>(
    (sql) => sql`
      select split_part(current_setting('server_version'), ' ', 1) as version,
             pg_database_size(current_database()) as "sizeBytes",
             pg_postmaster_start_time() as "startedAt",
             (select count(*) from pg_stat_activity where backend_type = 'client backend') as connections,
             current_setting('max_connections')::int as "maxConnections"`,
  );
  if (row === undefined) throw new Error("The statement returns one row");
  return row;
}

/** Examines the database of the PostgreSQL inside, whose programs must have the extension amcheck. */
import { join } from "node:path";
import postgres from "postgres";

export interface Examined {
  readonly version: string;
  readonly indexes: number;
  readonly tables: number;
  /** What amcheck found in a table or an index; it finds nothing in one that is intact. */
  readonly faults: readonly string[];
  /** The indexes with a collation that the C library or ICU could order in another way tomorrow. */
  readonly foreignOrder: readonly string[];
}

/** Returns where the cluster of a data folder accepts connections. */
export function connectionTo(dataDir: string) {
  return { path: join(dataDir, "postgres/.s.PGSQL.5432"), user: "claviger", database: "postgres" };
}

/**
 * Checks every table and every index of a running cluster in a data folder, and drops the extension again. amcheck has no
 * check for BRIN: such an index is summed up anew, which reads its whole table.
 */
export async function examineCluster(dataDir: string): Promise<Examined> {
  const sql = postgres({ ...connectionTo(dataDir), max: 1, onnotice: () => {} });
  try {
    await sql`create extension amcheck`;
    const indexes = await sql<{ oid: number; name: string; method: string; isUnique: boolean }[]>`
      select c.oid, c.oid::regclass::text as name, amname as method, indisunique as "isUnique"
        from pg_index join pg_class c on c.oid = indexrelid join pg_am a on a.oid = relam
       where c.relkind = 'i' and relpersistence = 'p'`;
    const tables = await sql<{ oid: number; name: string }[]>`
      select oid, oid::regclass::text as name from pg_class
       where relkind in ('r', 'm', 't') and relpersistence = 'p'`;
    const faults: string[] = [];
    for (const { oid, name, method, isUnique } of indexes) {
      const check =
        method === "btree"
          ? sql`select bt_index_parent_check(${oid}, true, true, ${isUnique})`
          : method === "gin"
            ? sql`select gin_index_check(${oid})`
            : method === "brin"
              ? sql`select brin_summarize_new_values(${oid})`
              : sql`select 'no check for this kind of index'::integer`;
      await check.catch((error: Error) => faults.push(`${name}: ${error.message}`));
    }
    for (const { oid, name } of tables) {
      const found = await sql<{ msg: string }[]>`select msg from verify_heapam(${oid})`;
      faults.push(...found.map(({ msg }) => `${name}: ${msg}`));
    }
    const foreign = await sql<{ name: string }[]>`
      select distinct indexrelid::regclass::text || ' by ' || collname as name
        from pg_index cross join unnest(indcollation) as used
        join pg_collation on pg_collation.oid = used
        join pg_database on datname = current_database()
       where collname not in ('C', 'POSIX')
         and case collprovider when 'd' then datlocprovider else collprovider end <> 'b'`;
    const [server] = await sql`select split_part(current_setting('server_version'), ' ', 1) as version`;
    return {
      version: server?.version,
      indexes: indexes.length,
      tables: tables.length,
      faults,
      foreignOrder: foreign.map(({ name }) => name),
    };
  } finally {
    await sql`drop extension if exists amcheck`.catch(() => {});
    await sql.end({ timeout: 5 });
  }
}

/** Reads a whole database as text, for tests that some text is not in it. */
import type { Database } from "../../src/database/mod.ts";

/** Returns every row of every table, each as one line with the text of its columns. */
export async function dumpText(database: Database): Promise<string> {
  const tables = await database.query<{ name: string }>(
    (sql) => sql`
      select quote_ident(table_name) as name from information_schema.tables
       where table_schema = 'public' and table_type = 'BASE TABLE' order by 1`,
  );
  const lines: string[] = [];
  for (const { name } of tables) {
    const rows = await database.query<{ line: string }>((sql) =>
      sql.unsafe(`select '${name} ' || (one.*)::text as line from ${name} one`),
    );
    for (const { line } of rows) lines.push(line);
  }
  return lines.join("\n");
}

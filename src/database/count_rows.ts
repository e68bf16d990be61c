import type { Database } from "./database.ts";
import type { Fragment, Sql } from "./sql.ts";

/** Lists count their rows up to this number: a page cannot count a million rows in time. */
export const MOST_COUNTED = 10_000;

/** Counts rows up to `most`. A result above `most` means that there are more. */
export async function countRows(
  database: Database,
  rows: (sql: Sql) => Fragment,
  { most = MOST_COUNTED }: { readonly most?: number | undefined } = {},
): Promise<number> {
  const [row] = await database.read<{ count: number }>(
    (sql) => sql`
      select count(*)::integer as count from (select from (${rows(sql)}) as row limit ${most + 1}::bigint) as counted`,
  );
  return row?.count ?? 0;
}

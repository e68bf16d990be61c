import type { Fragment, Sql } from "./sql.ts";

/**
 * A query that makes the server write 8 MB to a file of its own and drop it. A row would not do: while a disk is
 * full, small rows still fit into the pages that exist.
 */
export function tryDisk(sql: Sql): Fragment {
  return sql`
    with wide as materialized (select repeat('x', 8000) || n as line from generate_series(1, 1000) n)
    select count(line) as lines from wide`;
}

import type { Fragment, Sql } from "./sql.ts";

/**
 * Returns a query that makes the server write 8 MB to a temporary file and delete it, to test whether the disk is
 * full. One inserted row would not show that: on a full disk small rows still fit into existing pages.
 */
export function tryDisk(sql: Sql): Fragment {
  return sql`
    with wide as materialized (select repeat('x', 8000) || n as line from generate_series(1, 1000) n)
    select count(line) as lines from wide`;
}

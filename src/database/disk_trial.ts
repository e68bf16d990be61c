import type { Fragment, Sql } from "./sql.ts";

/**
 * Returns a query that makes the server write 8 MB to a temporary file and delete it, to test whether the disk is
 * full. One inserted row would not show that: on a full disk small rows still fit into existing pages. On a server with
 * a `temp_file_limit` it writes at most three quarters of the limit.
 */
export function tryDisk(sql: Sql): Fragment {
  return sql`
    with allowed as (select nullif(pg_size_bytes(current_setting('temp_file_limit')), -1) as bytes),
    wide as materialized (
      select repeat('x', 8000) || n as line
        from allowed cross join generate_series(1, greatest(1, least(1000, bytes * 3 / 4 / 8000))) n
    )
    select count(line) as lines from wide`;
}

import type { Fragment, Sql } from "../database/mod.ts";

/** Returns an instant, as SQL, in the form of all other texts; `at` is SQL, too. */
export function textOf(sql: Sql, at: Fragment): Fragment {
  return sql`to_char(${at} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`;
}

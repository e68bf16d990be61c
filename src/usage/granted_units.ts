import type { Fragment, Sql } from "../database/mod.ts";

/**
 * Returns the SQL, for the update branch of an upsert of `usage as u`, that computes how many of the wanted units a license gets.
 * The limit is the one that the row to be inserted has, because another look-up of the license cost 1 µs each time.
 */
export function grantedUnits(sql: Sql): Fragment {
  const left = `coalesce(excluded.limited_to, ${Number.MAX_SAFE_INTEGER}) - u.used`;
  return sql.unsafe(`least(excluded.granted, greatest(${left}, 0))`);
}

import type { Fragment, Sql } from "../database/mod.ts";

/** Returns the newest key, as SQL, of the license `l`: the audit log names it in rows about a license. Null if there is none. */
export function newestKeyOf(sql: Sql): Fragment {
  return sql`(select k.id from keys k where k.license_id = l.id order by k.id desc limit 1)`;
}

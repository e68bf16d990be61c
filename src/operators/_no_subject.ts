import type { Fragment, Sql } from "../database/mod.ts";

/** Returns the columns of a change for the audit log that concerns no account, license or key. */
export function noSubject(sql: Sql): Fragment {
  return sql`null::uuid as account_id, null::uuid as license_id, null::uuid as key_id`;
}

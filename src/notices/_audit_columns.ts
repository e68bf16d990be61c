/** What the audit log has of a notice. */
import type { Fragment, Sql } from "../database/mod.ts";
import { textOf } from "./_text_of.ts";

/** Returns the id of a notice as operators see it, as SQL. */
export function idOf(sql: Sql, row: Fragment): Fragment {
  return sql`'ntc_' || replace(${row}.id::text, '-', '')`;
}

/** Returns the values of a notice for the audit log. The log has no other values of the rows that it names. */
function logged(sql: Sql, row: Fragment): Fragment {
  return sql`
    jsonb_build_object('notice', ${idOf(sql, row)}, 'kind', ${row}.kind, 'state', ${row}.state,
                       'true_since', ${textOf(sql, sql`${row}.true_since`)}) || ${row}.facts`;
}

/** Returns the columns, as SQL, that a row of the audit log about the notice `row` has. */
export function auditColumns(sql: Sql, row: Fragment): Fragment {
  return sql`
    (select l.account_id from licenses l where l.id = ${row}.license_id) as account_id, ${row}.license_id, ${row}.key_id,
    ${logged(sql, row)} as after`;
}

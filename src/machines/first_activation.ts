import type { Fragment, Sql } from "../database/mod.ts";

/**
 * Returns the query that makes a row for the audit log from `taken`, the row of `take_place`, if the machine was
 * unknown. The log names no machine by its texts: an erasure removes these, and the log keeps its rows.
 */
export function firstActivation(sql: Sql, keyUuid: string): Fragment {
  return sql`
    select l.account_id, l.id as license_id, k.id as key_id, null::jsonb as before,
           jsonb_build_object('machine', 'mch_' || replace(machine_id::text, '-', '')) as after
      from taken, keys k join licenses l on l.id = k.license_id
     where is_new and k.id = ${keyUuid}::uuid`;
}

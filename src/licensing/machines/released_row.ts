import { toId } from "../../base/ids.ts";
import type { Fragment, Sql } from "../../database/mod.ts";

interface Release {
  /** The machine. */
  readonly uuid: string;
  /** The key that the row names, as SQL; the license is `l`. */
  readonly keyUuid: Fragment;
}

/**
 * Returns the query that makes a row for the audit log from `released`, which has `license_id`, the `state` of a machine
 * after its release, null if nothing was released, and `taken_until`.
 */
export function releasedRow(sql: Sql, { uuid, keyUuid }: Release): Fragment {
  const machine = toId("mch", uuid);
  return sql`
    select l.account_id, l.id as license_id, ${keyUuid} as key_id,
           jsonb_build_object('machine', ${machine}::text, 'state', 'active') as before,
           jsonb_build_object('machine', ${machine}::text, 'state', r.state)
             || case when r.state = 'offline' then jsonb_build_object('taken_until', r.taken_until) else '{}' end as after
      from released r join licenses l on l.id = r.license_id
     where r.state is not null`;
}

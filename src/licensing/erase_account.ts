import { auditCte, type By } from "../audit/mod.ts";
import { toId } from "../base/ids.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import type { Database, Fragment, Sql } from "../database/mod.ts";
import { erasedEmail } from "./_erased_email.ts";

/**
 * Removes a person's name, e-mail and organization for good and keeps the counts: licenses, keys, usage and
 * events stay under the account's identifier, which reveals nothing of the person. Triggers also remove external ids and
 * the names of machines, and the upkeep removes the texts of events later. Refuses an unknown account, and an account
 * with a key that is not revoked. A dry run refuses in the same cases and changes nothing.
 *
 * `isPersonal` tells whether there was something to remove: an account is erased once.
 */
export async function eraseAccount(
  database: Database,
  uuid: string,
  { actor, now, isDryRun = false }: By & { readonly isDryRun?: boolean },
): Promise<{ readonly isPersonal: boolean } | Refusal> {
  const [row] = await database.query<{ isPersonal: boolean; isSame: boolean; keysInUse: number }>(
    (sql) => sql`
      -- The version of the row when the statement began. If the statement then waits while another one issues a key, it
      -- does not see the key, but it sees that the version has changed.
      with begun as materialized (
        select id, xmin::text as version from accounts where id = ${uuid}::uuid
      ),
      old as (
        -- Also the name: earlier versions let operators change an erased account.
        select id, (email, name, organization) <> (${erasedEmail(sql, sql`id`)}, 'erased', '') as is_personal,
               a.xmin::text = version as is_same
          from accounts a join begun using (id) for update of a
      ),
      in_use as (
        select count(*) as keys
          from old join licenses l on l.account_id = old.id join keys k on k.license_id = l.id
         where k.state <> 'revoked'
      ),
      changed as (
        update accounts a
           set email = ${erasedEmail(sql, sql`a.id`)}, name = 'erased', organization = ''
          from old, in_use
         where a.id = old.id and in_use.keys = 0 and old.is_personal and old.is_same and not ${isDryRun}::boolean
        returning a.id as account_id, a.email, null::jsonb as before, null::jsonb as after
      ),
      logged as (${auditCte(sql, { action: "account.erase", actor, at: now, from: sql`changed` })})
      select old.is_personal as "isPersonal", old.is_same as "isSame", in_use.keys as "keysInUse" from old, in_use`,
  );
  if (row === undefined) return refuse("NOT_FOUND", "Cannot erase account: no account has that id or e-mail");
  if (!row.isSame)
    return refuse(
      "CONFLICT",
      "Cannot erase account: it got a key or another name at the same moment; try again",
    );
  if (row.keysInUse === 0) return { isPersonal: row.isPersonal };
  const keys = row.keysInUse === 1 ? "a key of it is" : `${row.keysInUse} of its keys are`;
  const remedy = { name: "revoke_keys_of_account", of: toId("usr", uuid) } as const;
  return refuse("CONFLICT", `Cannot erase account: ${keys} not revoked`, { remedy });
}

/** Returns the body of a CTE that marks an account, so that it gets no new key while its keys are being revoked. */
export function markErasing(sql: Sql, uuid: string): Fragment {
  return sql`
    update accounts set erasing_since = coalesce(erasing_since, clock_timestamp()) where id = ${uuid}::uuid
    returning id`;
}

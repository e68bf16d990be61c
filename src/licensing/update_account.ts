import { auditCte, type By } from "../audit/mod.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import { constraintOf, type Database, type Sql } from "../database/mod.ts";
import { ERASED, erasedEmail, isErased } from "./_erased_email.ts";
import type { Account } from "./accounts.ts";
import { MAX_NAME_LENGTH, nameFor } from "./licenses.ts";

interface UpdatedAccount extends Pick<Account, "email" | "name" | "organization"> {
  readonly isChanged: boolean;
  /** The e-mail before the change; undefined if the e-mail stayed. */
  readonly formerEmail: string | undefined;
}

interface Updated extends Omit<UpdatedAccount, "formerEmail"> {
  readonly oldEmail: string;
}

interface Update extends By {
  readonly uuid: string;
  /** As `parseEmail` returns it. A name that repeats the old e-mail follows. */
  readonly email?: string | undefined;
  readonly name?: string | undefined;
  readonly organization?: string | undefined;
}

/**
 * Updates an account's e-mail, name or organization, and tells whether a value changed. Licenses, keys, machines, custom
 * models and the history stay with the account. Refuses an account that does not exist (`NOT_FOUND`), an e-mail that
 * another account has (`ALREADY_EXISTS`), the e-mail of an erased account, and an erased account (`CONFLICT`): a page that was
 * opened before would restore the name of the person.
 */
export async function updateAccount(database: Database, update: Update): Promise<UpdatedAccount | Refusal> {
  if (update.email !== undefined && isErased({ email: update.email }))
    return refuse("CONFLICT", `Cannot update account: the e-mail names no account: ${ERASED}`);
  let updated: Updated | undefined;
  try {
    [updated] = await database.query<Updated>((sql) => updateStatement(sql, update));
  } catch (error) {
    if (constraintOf(error) !== "email_unique") throw error;
    return refuse(
      "ALREADY_EXISTS",
      `Cannot update account: another account has the e-mail ${update.email}; move the licenses of one of the two to the other`,
    );
  }
  if (updated === undefined)
    return refuse("NOT_FOUND", "Cannot update account: no account has that id or e-mail");
  const { oldEmail, ...account } = updated;
  if (isErased({ email: oldEmail })) return refuse("CONFLICT", "Cannot update account: it is erased");
  return { ...account, formerEmail: oldEmail === account.email ? undefined : oldEmail };
}

/** Updates the account, writes the row of the audit log, and keeps both e-mails beside it until the person is erased. */
function updateStatement(sql: Sql, { uuid, actor, now, email, name, organization }: Update) {
  const nameOfEmail = email === undefined ? null : nameFor(email);
  return sql`
    with old as (
      select id, email, name, organization, email = ${erasedEmail(sql, sql`id`)} as is_erased,
             coalesce(${email ?? null}::text, email) as new_email,
             coalesce(${name ?? null}::text,
                      case when name = left(email, ${MAX_NAME_LENGTH}) then ${nameOfEmail}::text end,
                      name) as new_name,
             coalesce(${organization ?? null}::text, organization) as new_organization
        from accounts where id = ${uuid}::uuid for update
    ),
    changed as (
      update accounts a set email = new_email, name = new_name, organization = new_organization
        from old
       where a.id = old.id and not is_erased
         and (new_email, new_name, new_organization) <> (old.email, old.name, old.organization)
      returning a.id as account_id, null::jsonb as before,
                -- The names of the fields without their values: a person can be erased from the account, but not from
                -- the log, which only grows.
                jsonb_build_object('changed', array_remove(array[
                  case when a.email <> old.email then 'email' end,
                  case when a.name <> old.name then 'name' end,
                  case when a.organization <> old.organization then 'organization' end], null)) as after
    ),
    logged as (
      ${auditCte(sql, { action: "account.update", actor, at: now, from: sql`changed` })}
      returning id as audit_id
    ),
    kept as (
      insert into former_emails (audit_id, account_id, old_email, new_email)
      select audit_id, id, email, new_email from logged, old where email <> new_email
    )
    select new_email as email, new_name as name, new_organization as organization, email as "oldEmail",
           exists (select from changed) as "isChanged"
      from old`;
}

/** The e-mail of an account from which a person was erased. It reveals only the UUID of the account. */
import type { Fragment, Sql } from "../database/mod.ts";

/** Tells by its e-mail whether a person was erased from an account. */
export function isErased({ email }: { readonly email: string }): boolean {
  return /^erased-[0-9a-f-]{36}@erased\.invalid$/.test(email);
}

/** Why an erased account gets no key that works. */
export const ERASED = "the person was erased from its account";

/** Why an account whose keys are being revoked gets no key. */
export const ERASING = "the person is being erased from its account";

/** Returns the condition, as SQL, that nobody was erased from the account with that id, and nobody is being erased. */
export function isLiving(sql: Sql, id: Fragment): Fragment {
  return sql`exists (select from accounts a where a.id = ${id} and ${hasPerson(sql)})`;
}

/** Returns the same condition for a row `a` of `accounts`. */
export function hasPerson(sql: Sql): Fragment {
  return sql`a.erasing_since is null and a.email <> ${erasedEmail(sql, sql`a.id`)}`;
}

/**
 * Returns the body of a CTE that holds the account of a key, and has its id if nobody was or is being erased from it.
 * It is an update that changes nothing: a simultaneous erasure waits for it, and then sees that there may be a new key.
 */
export function holdLiving(sql: Sql, keyUuid: string): Fragment {
  return sql`
    update accounts a set created_at = a.created_at
      from keys k join licenses l on l.id = k.license_id
     where k.id = ${keyUuid}::uuid and a.id = l.account_id and ${hasPerson(sql)}
    returning a.id`;
}

/** Returns the same e-mail as SQL; `id` is the column with the UUID of the account. */
export function erasedEmail(sql: Sql, id: Fragment): Fragment {
  return sql`'erased-' || ${id} || '@erased.invalid'`;
}

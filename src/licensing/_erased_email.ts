/** The e-mail of an account from which a person was erased. It reveals only the UUID of the account. */
import type { Fragment, Sql } from "../database/mod.ts";

/** Tells by its e-mail whether a person was erased from an account. */
export function isErased({ email }: { readonly email: string }): boolean {
  return /^erased-[0-9a-f-]{36}@erased\.invalid$/.test(email);
}

/** Why an erased account gets no key that works. */
export const ERASED = "the person was erased from its account";

/** Returns the condition, as SQL, that nobody was erased from the account with that id. */
export function isLiving(sql: Sql, id: Fragment): Fragment {
  return sql`not exists (select from accounts where id = ${id} and email = ${erasedEmail(sql, sql`id`)})`;
}

/** Returns the same e-mail as SQL; `id` is the column with the UUID of the account. */
export function erasedEmail(sql: Sql, id: Fragment): Fragment {
  return sql`'erased-' || ${id} || '@erased.invalid'`;
}

/** The e-mail of an account from which a person was erased. It reveals only the UUID of the account. */
import type { Fragment, Sql } from "../database/mod.ts";

/** Tells whether a person was erased from the account. */
export function isErased({ uuid, email }: { readonly uuid: string; readonly email: string }): boolean {
  return email === `erased-${uuid}@erased.invalid`;
}

/** Returns the same e-mail as SQL; `id` is the column with the UUID of the account. */
export function erasedEmail(sql: Sql, id: Fragment): Fragment {
  return sql`'erased-' || ${id} || '@erased.invalid'`;
}

/** Finds the account or the key that a command is about. `what` is the action that a refusal names: `show key`. */
import type { Database } from "../database/mod.ts";
import { findKey, type KeySummary } from "../licensing/keys/mod.ts";
import { type Account, findAccountNamed, refuseUnknownKey } from "../licensing/mod.ts";
import { orRefuse } from "./run.ts";

/** Finds an account by its id or its e-mail; ends the command if there is none. */
export async function demandAccount(
  database: Database,
  who: string,
  what = "find account",
): Promise<Account> {
  return orRefuse(await findAccountNamed(database, who, what));
}

/** Finds a key by its UUID; ends the command if there is none. */
export async function demandKey(
  { database, now }: { readonly database: Database; readonly now: Date },
  uuid: string,
  what: string,
): Promise<KeySummary> {
  return orRefuse((await findKey(database, { uuid }, { now })) ?? refuseUnknownKey(what, uuid));
}

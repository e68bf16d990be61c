import { type Account, findAccount } from "../../licensing/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../refusal.ts";
import { accountFor } from "../frame/api/path_ids.ts";
import type { Visit } from "../frame/console/visit.ts";

/** Finds the account that the path of a page names. */
export async function findNamed({ options, params }: Visit): Promise<Account | Refusal> {
  const named = accountFor("show account").read(params);
  if (isRefusal(named)) return named;
  const account = await findAccount(options.database, { uuid: named.uuid });
  return account ?? refuse("NOT_FOUND", "Cannot show account: no account has that id");
}

/** Creates operators and sessions for tests that need a database but no service. */

import { isRefusal } from "../../src/base/refusal.ts";
import type { Database } from "../../src/database/mod.ts";
import {
  type BegunSession,
  type LoginCode,
  loginOperator,
  type Role,
  redeemCode,
} from "../../src/operators/mod.ts";
import { ACTOR, NOW } from "../support/issue.ts";

/** Creates a login code; with a role also the operator. */
export async function login(
  database: Database,
  name: string,
  { role, now = NOW }: { readonly role?: Role; readonly now?: Date } = {},
): Promise<LoginCode> {
  const code = await loginOperator(database, { name, role }, { actor: ACTOR, now });
  if (isRefusal(code)) throw new Error(code.sentence);
  return code;
}

/** Creates a login code and begins a session with it. */
export async function enter(
  database: Database,
  name: string,
  {
    role,
    now = NOW,
    idleMinutes = 30,
  }: { readonly role?: Role; readonly now?: Date; readonly idleMinutes?: number } = {},
): Promise<BegunSession> {
  const { code } = await login(database, name, { ...(role && { role }), now });
  const session = await redeemCode(database, code, { now, idleMinutes });
  if (session === undefined) throw new Error("The code began no session");
  return session;
}

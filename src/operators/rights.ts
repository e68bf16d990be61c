/**
 * The right to a request that takes long. It was checked when the request began, and is checked again when the work ends,
 * in the statement that makes the change: a token can be revoked and an operator removed in the meantime.
 */

import { parseId } from "../base/ids.ts";
import type { Code } from "../base/refusal.ts";
import type { Database, Fragment, Sql } from "../database/mod.ts";
import { hashOf } from "./_secret_text.ts";
import type { Role, Scope } from "./scopes.ts";
import { isAccepted } from "./tokens.ts";

export interface Right {
  /** Returns the condition, as SQL, that the right is still there. */
  holds(sql: Sql, now: Date): Fragment;
  /** The code and the end of the refusal if it is not. */
  readonly lost: { readonly code: Code; readonly why: string };
}

/** Returns the right of a token: it is accepted, and has the scope if one is needed. */
export function rightOfToken(text: string, scope: Scope | "any"): Right {
  return {
    holds: (sql, now) => sql`
      exists (select from tokens
               where hash = ${hashOf(text)}::text::bytea and ${isAccepted(sql, now)}
                 and ${scope === "any" ? sql`true` : sql`${scope}::text = any (scopes)`})`,
    lost: { code: "INVALID_TOKEN", why: "the token was revoked or has expired in the meantime" },
  };
}

/**
 * Returns the right of a session: nobody has ended it, and its operator has one of the roles. Idle time does not
 * count, because the session was in use when the request began.
 */
export function rightOfSession(id: string, roles: readonly Role[]): Right {
  return {
    holds: (sql) => sql`
      exists (select from operator_sessions s join operators o on o.name = s.operator
               where s.id = ${parseId("ses", id) ?? null}::uuid and o.removed_at is null
                 and o.role in ${sql(roles)})`,
    lost: {
      code: "NOT_ALLOWED",
      why: "you were logged out or removed, or your role has changed, in the meantime",
    },
  };
}

/** Tells whether a right is still there. */
export async function isHeld(database: Database, right: Right, now: Date): Promise<boolean> {
  const [row] = await database.query<{ isHeld: boolean }>(
    (sql) => sql`select ${right.holds(sql, now)} as "isHeld"`,
  );
  return row?.isHeld === true;
}

/** The right to a long request, of a token and of a session. */

import type { Right } from "../audit/mod.ts";
import { parseId } from "../base/ids.ts";
import { hashOf } from "./_secret_text.ts";
import type { Role, Scope } from "./scopes.ts";
import { isAccepted } from "./tokens.ts";

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

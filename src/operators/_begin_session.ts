/** The part of a login that all ways of logging in share: a session begins, and the audit log gets a row. */
import { type Actor, auditCte } from "../audit/mod.ts";
import { newUuid, toId } from "../base/ids.ts";
import type { Fragment, Sql } from "../database/mod.ts";
import { hashOf, randomDigits } from "./_secret_text.ts";
import type { Role } from "./scopes.ts";

/** Who logs in, from where and when. */
export interface Login extends Pick<Actor, "request" | "address"> {
  readonly now: Date;
  /** The session ends after so many minutes without a request. */
  readonly idleMinutes: number;
}

export interface BegunSession {
  /** `ses_…`. */
  readonly id: string;
  readonly operator: string;
  readonly role: Role;
  /** The value of the cookie, 64 hexadecimal digits. It is not stored, so it cannot be sent again. */
  readonly cookieValue: string;
}

interface NewSession extends Pick<BegunSession, "id" | "cookieValue"> {
  readonly uuid: string;
}

const COOKIE_BITS = 256;

export function makeSession(): NewSession {
  const uuid = newUuid();
  return { uuid, id: toId("ses", uuid), cookieValue: randomDigits(COOKIE_BITS) };
}

interface Beginning {
  readonly session: NewSession;
  readonly login: Login;
  /** Given by a provider: when the person proved who they are, and the role that their groups have. */
  readonly provider?: { readonly provedAt: Date; readonly role: Role };
}

/** Returns the CTEs that begin a session of the operator in the CTE `person`, whose column is `name`. */
export function sessionCtes(sql: Sql, { session, login, provider }: Beginning): Fragment {
  const { now, request, address, idleMinutes } = login;
  return sql`
    begun as (
      insert into operator_sessions (id, hash, operator, created_at, last_seen_at, proved_at, idle_minutes)
      select ${session.uuid}::uuid, ${hashOf(session.cookieValue)}::text::bytea, name, ${now}::timestamptz,
             ${now}::timestamptz, ${provider?.provedAt ?? null}::timestamptz, ${idleMinutes}::integer
        from person
      returning operator, null::jsonb as before,
                jsonb_build_object('session', ${session.id}::text, 'way', ${provider ? "provider" : "code"}::text)
                  as after
    ),
    seen as (
      update operators o
         set last_seen_at = ${now}::timestamptz, role = coalesce(${provider?.role ?? null}::text, o.role)
        from begun where o.name = begun.operator
    ),
    logged as (
      ${auditCte(sql, {
        action: "session.begin",
        actor: { kind: "operator", name: sql`operator`, request, address },
        at: now,
        from: sql`begun`,
      })}
    )`;
}

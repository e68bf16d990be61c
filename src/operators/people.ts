/**
 * People: a name, a role, and codes to log in with. Operators are created on the host, or by their first login at a
 * provider. Rows are never deleted, so a name in the audit log means one person for ever.
 */
import { auditCte, type By } from "../audit/mod.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import type { ParsingRule } from "../base/rule.ts";
import { hasKey } from "../base/secrets/mod.ts";
import type { Database, Fragment, Sql } from "../database/mod.ts";
import { deleteCodesOf, insertCode, makeCode, type NewCode } from "./login_codes.ts";
import { ROLES, type Role } from "./scopes.ts";
import { isLiveSession } from "./sessions.ts";

export interface Operator {
  readonly name: string;
  readonly role: Role;
  readonly createdAt: Date;
  /** The provider at which the operator logs in, which decides the role; null for one whom a command created. */
  readonly issuer: string | null;
  /** Null while the operator can log in. */
  readonly removedAt: Date | null;
  /** When the operator used the console last, exact to the minute; null if the operator never logged in. */
  readonly lastSeenAt: Date | null;
  /** The names of the tokens that the operator issued and that are not revoked. */
  readonly tokens: readonly string[];
}

export interface LoginCode extends NewCode {
  readonly role: Role;
  /** Whether the operator was created with this code. */
  readonly isNew: boolean;
}

/**
 * Creates a code with which an operator logs in once within ten minutes. With a role it creates the operator if the
 * name is new. Refuses a new name without a role, a role that differs from the operator's, and the name of a removed
 * operator.
 */
export async function loginOperator(
  database: Database,
  { name, role }: { readonly name: string; readonly role?: Role | undefined },
  { actor, now }: By,
): Promise<LoginCode | Refusal> {
  if (NAME_RULE.parse(name) === undefined)
    return refuse("INVALID_REQUEST", `Cannot create login code: a name must be ${NAME_RULE.expects}`);
  const made = makeCode(now);
  const [row] = await database.query<{ role: Role; isNew: boolean }>(
    (sql) => sql`
      with added as (
        insert into operators (name, role, created_at)
        select ${name}, ${role ?? null}::text, ${now}::timestamptz where ${role ?? null}::text is not null
        -- The update changes nothing: it locks a known operator, so that its role is compared as it is now.
        on conflict (name) do update set role = excluded.role
          where operators.role = excluded.role and operators.removed_at is null
        returning name, role, xmax = 0 as is_new
      ),
      person as (
        select name, role, is_new from added
        union all
        select name, role, false from operators
         where name = ${name} and removed_at is null and ${role ?? null}::text is null
      ),
      coded as (${insertCode(sql, made, sql`person`)}),
      created as (
        select null::jsonb as before, jsonb_build_object('operator', name, 'role', role) as after
          from person where is_new
      ),
      logged_creation as (
        ${auditCte(sql, { action: "operator.create", actor, at: now, from: sql`created` })} returning id
      ),
      asked as (
        select null::jsonb as before, jsonb_build_object('operator', name) as after
          from person
         -- This condition is always true. It makes the statement write the row of the creation first.
         where (select count(*) from logged_creation) < 2
      ),
      logged as (${auditCte(sql, { action: "operator.login", actor, at: now, from: sql`asked` })})
      select role, is_new as "isNew" from person`,
  );
  if (row !== undefined) return { ...made, ...row };
  return await refuseLogin(database, { name, role });
}

const NAME_FORM = /^[a-z0-9][a-z0-9._-]{0,63}$/;

/** The rule for the names of operators and tokens. */
export const NAME_RULE: ParsingRule<string> = {
  expects:
    "1 to 64 lowercase letters, digits, dots, hyphens and underscores, no API key, and must begin with a letter or digit",
  parse: (text) => (NAME_FORM.test(text) && !hasKey(text) ? text : undefined),
};

async function refuseLogin(
  database: Database,
  { name, role }: { readonly name: string; readonly role?: Role | undefined },
): Promise<Refusal> {
  const known = await findOperator(database, name);
  const cannot = "Cannot create login code";
  if (known === undefined) {
    const roles = `${ROLES.slice(0, -1).join(", ")} or ${ROLES.at(-1)}`;
    const why = `no operator is named ${name}; a new operator needs a role: ${roles}`;
    return refuse("NOT_FOUND", `${cannot}: ${why}`, { remedy: { name: "give_role" } });
  }
  if (known.removedAt !== null)
    return refuse(
      "CONFLICT",
      `${cannot}: the operator ${name} was removed, and names are not used again; choose another name`,
    );
  if (known.issuer !== null)
    return refuse(
      "CONFLICT",
      `${cannot}: ${name} logs in at ${known.issuer}, where the groups give the role`,
    );
  return refuse("CONFLICT", `${cannot}: ${name} has the role ${known.role}, not ${role}`, {
    remedy: { name: "change_role", of: name },
  });
}

/** Lists all operators by name, including removed operators. */
export async function listOperators(database: Database): Promise<readonly Operator[]> {
  return await database.query<Operator>(
    (sql) => sql`
      select o.name, o.role, o.issuer, o.created_at as "createdAt", o.removed_at as "removedAt",
             o.last_seen_at as "lastSeenAt", ${tokensOf(sql, sql`o.name`)} as tokens
        from operators o
       order by o.name collate "C"`,
    { isRead: true },
  );
}

/** Selects the names of the tokens that an operator issued and that are not revoked, as JSON. */
function tokensOf(sql: Sql, name: Fragment): Fragment {
  // Most tokens are issued by a command on the host, where a person usually has the same name.
  return sql`
    coalesce((select json_agg(t.name order by t.name collate "C") from tokens t
               where t.created_by in ('operator:' || ${name}, 'command:' || ${name}) and t.state <> 'revoked'), '[]')`;
}

async function findOperator(database: Database, name: string) {
  const [row] = await database.query<Pick<Operator, "role" | "issuer" | "removedAt">>(
    (sql) => sql`select role, issuer, removed_at as "removedAt" from operators where name = ${name}`,
    { isRead: true },
  );
  return row;
}

/**
 * Returns the CTEs of a change to an operator that could leave no admin: `was` is the operator, and `admins.count` the
 * number of admins whom a command created; a provider can take the role of the others away at any time. All these rows
 * are locked, in one order, so the second of two simultaneous changes counts the admins that remain after the first.
 */
function lockedCtes(sql: Sql, name: string): Fragment {
  return sql`
    locked as (
      select name, role, issuer, removed_at from operators
       where name = ${name} or (role = 'admin' and removed_at is null)
       order by name for update
    ),
    was as (
      select name, role, role = 'admin' and issuer is null as counts from locked
       where name = ${name} and removed_at is null
    ),
    admins as (select count(*) from locked where role = 'admin' and issuer is null and removed_at is null)`;
}

/**
 * Gives an operator another role. Refuses an unknown or removed operator, one who logs in at a provider, and a lower
 * role for the last admin.
 */
export async function setRole(
  database: Database,
  { name, role }: { readonly name: string; readonly role: Role },
  { actor, now }: By,
): Promise<{ readonly isChanged: boolean } | Refusal> {
  const [row] = await database.query(
    (sql) => sql`
      with ${lockedCtes(sql, name)},
      changed as (
        update operators o set role = ${role}
          from was, admins
         where o.name = was.name and o.issuer is null and was.role <> ${role} and (not was.counts or admins.count > 1)
        returning jsonb_build_object('operator', o.name, 'role', was.role) as before,
                  jsonb_build_object('operator', o.name, 'role', o.role) as after
      ),
      logged as (${auditCte(sql, { action: "operator.role", actor, at: now, from: sql`changed` })})
      select from changed`,
  );
  if (row !== undefined) return { isChanged: true };
  const known = await findOperator(database, name);
  if (known?.removedAt === null && known.role === role) return { isChanged: false };
  if (known?.removedAt === null && known.issuer !== null)
    return refuse("CONFLICT", `Cannot change the role of ${name}: it follows the groups at ${known.issuer}`);
  return refuseChange(`change the role of ${name}`, known);
}

interface RemovedOperator {
  /** How many sessions ended. */
  readonly sessions: number;
  /** The names of the tokens that the operator issued and that are not revoked. They still work. */
  readonly tokens: readonly string[];
}

/**
 * Removes an operator for good, and ends the operator's sessions and codes. Refuses an unknown or removed operator, and
 * the last admin. A dry run refuses in the same cases and changes nothing.
 */
export async function removeOperator(
  database: Database,
  name: string,
  { actor, now, isDryRun = false }: By & { readonly isDryRun?: boolean },
): Promise<RemovedOperator | Refusal> {
  const [row] = await database.query<RemovedOperator>(
    (sql) => sql`
      with ${lockedCtes(sql, name)},
      removable as (select was.name from was, admins where not was.counts or admins.count > 1),
      changed as (
        update operators o set removed_at = ${now}::timestamptz
          from removable
         where o.name = removable.name and not ${isDryRun}::boolean
        returning o.name, jsonb_build_object('operator', o.name, 'role', o.role) as before,
                  null::jsonb as after
      ),
      no_codes as (${deleteCodesOf(sql, sql`changed`)}),
      no_sessions as (delete from operator_sessions s using changed where s.operator = changed.name),
      logged as (${auditCte(sql, { action: "operator.remove", actor, at: now, from: sql`changed` })})
      select (select count(*) from operator_sessions s where s.operator = removable.name and ${isLiveSession(sql, now)})
               as sessions,
             ${tokensOf(sql, sql`removable.name`)} as tokens
        from removable`,
  );
  return row ?? refuseChange(`remove ${name}`, await findOperator(database, name));
}

function refuseChange(what: string, known: Awaited<ReturnType<typeof findOperator>>): Refusal {
  if (known === undefined) {
    const stem = `Cannot ${what}: no operator has this name`;
    return refuse("NOT_FOUND", stem, { remedy: { name: "list_operators" } });
  }
  if (known.removedAt !== null) return refuse("CONFLICT", `Cannot ${what}: the operator was removed already`);
  return refuse("CONFLICT", `Cannot ${what}: it is the last admin`, { remedy: { name: "appoint_admin" } });
}

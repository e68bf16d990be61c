/**
 * Logins at an identity provider. Issuer and subject name the person, never an e-mail, which somebody else can get. The
 * first login creates the operator, and every login gives the role that the groups have then.
 */
import { type AuditAction, auditCte } from "../audit/mod.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import { type Database, type Fragment, type Sql, toTextArray } from "../database/mod.ts";
import { type BegunSession, type Login, makeSession, sessionCtes } from "./_begin_session.ts";
import { randomDigits } from "./_secret_text.ts";
import { deleteCodesOf } from "./login_codes.ts";
import { NAME_RULE } from "./people.ts";
import type { Role } from "./scopes.ts";
import { isLiveSession } from "./sessions.ts";

/** A person at a provider. */
interface Identity {
  readonly issuer: string;
  readonly subject: string;
}

export interface ProvenIdentity extends Identity {
  /** At the first login the operator is named by the first of these texts that makes a plain name. */
  readonly wantedNames: readonly string[];
  readonly role: Role;
  /** When the person proved to the provider who they are. */
  readonly provedAt: Date;
}

const REMOVED = refuse("NOT_ALLOWED", "You were removed as an operator, and cannot log in any more");
const DISTURBED = refuse("SERVICE_UNAVAILABLE", "Somebody logged in at the same moment: log in again");
const NO_GROUP = "the provider sent no group any more that may log in";
/** How many numbers are tried after a name that is taken. */
const MOST_NUMBERS = 9;

/** Begins a session of the person. Refuses an operator who was removed. */
export async function loginIdentity(
  database: Database,
  identity: ProvenIdentity,
  login: Login,
): Promise<BegunSession | Refusal> {
  const begun = await beginSession(database, identity, login);
  if (begun !== undefined) return begun;
  const removed = await database.query(
    (sql) => sql`select from operators where ${isIdentity(sql, identity)} and removed_at is not null`,
  );
  if (removed.length > 0) return REMOVED;
  // Another first login took the name, or was that of the same person.
  return (await beginSession(database, identity, login)) ?? DISTURBED;
}

/** Creates the operator if the person is new, sets the role, and begins the session, in one statement. */
async function beginSession(
  database: Database,
  identity: ProvenIdentity,
  login: Login,
): Promise<BegunSession | undefined> {
  const { issuer, subject, wantedNames, role, provedAt } = identity;
  const { now, request, address } = login;
  const session = makeSession();
  const { id, cookieValue } = session;
  const [row] = await database.query<{ operator: string }>((sql) => {
    const log = (action: AuditAction, from: Fragment) => {
      const actor = { kind: "operator", name: sql`name`, request, address } as const;
      return sql`${auditCte(sql, { action, actor, at: now, from })} returning id`;
    };
    return sql`
      with was as (
        select name, role from operators where ${isIdentity(sql, identity)} and removed_at is null for update
      ),
      added as (
        insert into operators (name, role, created_at, last_seen_at, issuer, subject)
        select free.name, ${role}, ${now}::timestamptz, ${now}::timestamptz, ${issuer}, ${subject}
          from unnest(${toTextArray(toNames(wantedNames))}::text[]) with ordinality as free (name, place)
         where not exists (select from operators where ${isIdentity(sql, identity)})
           and not exists (select from operators taken where taken.name = free.name)
         order by place limit 1
        on conflict do nothing
        returning name
      ),
      created as (
        select name, null::jsonb as before,
               jsonb_build_object('operator', name, 'role', ${role}::text, 'issuer', ${issuer}::text,
                 'subject', ${subject}::text) as after
          from added
      ),
      logged_creation as (${log("operator.create", sql`created`)}),
      changed as (
        select name, jsonb_build_object('operator', name, 'role', role) as before,
               jsonb_build_object('operator', name, 'role', ${role}::text) as after
          from was where role <> ${role}
      ),
      logged_role as (${log("operator.role", sql`changed`)}),
      person as (
        select name from (select name from was union all select name from added) known_or_added
         -- This condition is always true. It makes the statement write the rows above first.
         where (select count(*) from logged_creation) + (select count(*) from logged_role) < 3
      ),
      ${sessionCtes(sql, { session, login, provider: { provedAt, role } })}
      select name as operator from person`;
  });
  return row && { id, cookieValue, ...row, role };
}

/** Ends the sessions and codes of a person who has no group any more that may log in. */
export async function endSessionsOf(database: Database, identity: Identity, login: Login): Promise<void> {
  const { now, request, address } = login;
  await database.query(
    (sql) => sql`
      with person as (select name from operators where ${isIdentity(sql, identity)}),
      no_codes as (${deleteCodesOf(sql, sql`person`)}),
      ended as (
        delete from operator_sessions s using person where s.operator = person.name
        returning s.operator, ${isLiveSession(sql, now)} as was_alive, null::jsonb as after,
                  jsonb_build_object('session', 'ses_' || replace(s.id::text, '-', ''),
                    'operator', s.operator) as before
      ),
      alive as (select * from ended where was_alive)
      ${auditCte(sql, {
        action: "session.end",
        actor: { kind: "operator", name: sql`operator`, request, address, reason: NO_GROUP },
        at: now,
        from: sql`alive`,
      })}`,
  );
}

function isIdentity(sql: Sql, { issuer, subject }: Identity): Fragment {
  return sql`(operators.issuer = ${issuer} and operators.subject = ${subject})`;
}

/** Returns names for a new operator, best first: the plain one, then with numbers, and at last with random digits. */
function toNames(wanted: readonly string[]): readonly string[] {
  const name = wanted.map(toPlainName).find((plain) => plain !== undefined) ?? "operator";
  const numbered = Array.from({ length: MOST_NUMBERS }, (_, index) => `${name}-${index + 2}`);
  return [name, ...numbered, `${name}-${randomDigits(64)}`];
}

/**
 * Makes a name of a text up to its `@`: in lowercase, without accents, and with hyphens for other characters. Undefined for
 * a text with letters that would be lost.
 */
function toPlainName(text: string): string | undefined {
  const local = text
    .replace(/@.*/s, "")
    .normalize("NFKD")
    .replaceAll(/\p{M}+/gu, "")
    .toLowerCase();
  if (/(?![a-z])\p{L}/u.test(local)) return undefined;
  const plain = local
    .replaceAll(/[^a-z0-9._-]+/g, "-")
    .replaceAll(/^[^a-z0-9]+|-+$/g, "")
    .slice(0, 40);
  return NAME_RULE.parse(plain);
}

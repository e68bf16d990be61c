/**
 * Sessions of browsers. A code or a login at a provider begins a session. It ends after some minutes without a request,
 * which are stored with it, after 12 hours, by logout, or with its operator. Codes and cookies are stored as hashes.
 */
import { auditCte, type By } from "../audit/mod.ts";
import { parseId, toId } from "../base/ids.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import type { Database, Fragment, Sql } from "../database/mod.ts";
import { type BegunSession, type Login, makeSession, sessionCtes } from "./_begin_session.ts";
import { hashOf } from "./_secret_text.ts";
import { takeCode } from "./login_codes.ts";
import type { Role } from "./scopes.ts";

/** The session of a request. The role is the operator's role now. */
export interface Session {
  /** `ses_…`. */
  readonly id: string;
  readonly operator: string;
  readonly role: Role;
  /** How and when the person proved who they are. */
  readonly proof: { readonly how: "login code" | "provider"; readonly at: Date };
}

/** A session times out this long after its log-in, also if requests arrive. */
const SESSION_HOURS = 12;
/** No request takes longer. Until then its session has to be known: without a row, somebody has ended it. */
const LONGEST_REQUEST_HOURS = 4;
/** Lasting access is given only by somebody whose proof is at most this old. */
export const FRESH_PROOF_MS = 5 * 60_000;

/**
 * Begins a session with a code, in one statement that also deletes the code, so a code works once. Undefined for any
 * text that is not a valid code.
 */
export async function redeemCode(
  database: Database,
  text: string,
  login: Login,
): Promise<BegunSession | undefined> {
  const session = makeSession();
  const { id, cookieValue } = session;
  const [row] = await database.query<{ operator: string; role: Role }>(
    (sql) => sql`
      with redeemed as (${takeCode(sql, text, login.now)}),
      person as (
        select o.name, o.role from redeemed join operators o on o.name = redeemed.operator where o.removed_at is null
      ),
      ${sessionCtes(sql, { session, login })}
      select name as operator, role from person`,
  );
  return row && { id, cookieValue, ...row };
}

/**
 * Finds the session of a cookie, in one statement, so that the end of a session, the removal of an operator and another
 * role apply from the next request. `extends`: whether the request is a sign of activity; it is written at most once a
 * minute, and ten times in the time after which the session ends.
 */
export async function findSession(
  database: Database,
  cookieValue: string,
  options: { readonly now: Date; readonly extends: boolean },
): Promise<Session | undefined> {
  const { now } = options;
  const [row] = await database.query<FoundSession>(
    (sql) => sql`
      with found as (
        select s.id, s.operator, o.role, s.created_at, s.proved_at, s.last_seen_at,
               least(interval '1 minute', s.idle_minutes * interval '6 seconds') as exactness
          from operator_sessions s join operators o on o.name = s.operator
         where s.hash = ${hashOf(cookieValue)}::text::bytea and ${isLiveSession(sql, now)} and o.removed_at is null
      ),
      -- The operator first, as every change of an operator locks its row, so two changes never wait for each other.
      person as (
        update operators o set last_seen_at = ${now}::timestamptz
          from found
         where o.name = found.operator and ${options.extends}::boolean
           and found.last_seen_at <= ${now}::timestamptz - found.exactness
        returning found.id
      ),
      seen as (
        update operator_sessions s set last_seen_at = ${now}::timestamptz from person where s.id = person.id
      )
      select id as uuid, operator, role, created_at as "createdAt", proved_at as "provedAt" from found`,
  );
  if (row === undefined) return undefined;
  const { uuid, createdAt, provedAt, ...who } = row;
  const how = provedAt === null ? "login code" : "provider";
  return { id: toId("ses", uuid), ...who, proof: { how, at: provedAt ?? createdAt } };
}

interface FoundSession extends Pick<Session, "operator" | "role"> {
  readonly uuid: string;
  readonly createdAt: Date;
  readonly provedAt: Date | null;
}

/**
 * Refuses a session whose person proved who they are more than five minutes ago; otherwise undefined. `what` is what only
 * others may do.
 */
export function refuseOldProof(
  { operator, proof }: Session,
  now: Date,
  what = "do this",
): Refusal | undefined {
  if (now.getTime() - proof.at.getTime() <= FRESH_PROOF_MS) return undefined;
  return refuse("NOT_ALLOWED", `Only an operator who logged in within the last five minutes may ${what}`, {
    remedy: { name: "log_in_again", of: operator },
  });
}

/**
 * Ends a session (`ses_…`), by logout or by an admin; with `operator` only a session of that operator. False if there
 * is no such session, or if it had ended already.
 */
export async function endSession(
  database: Database,
  id: string,
  { actor, now, operator }: By & { readonly operator?: string | undefined },
): Promise<boolean> {
  const uuid = parseId("ses", id);
  if (uuid === undefined) return false;
  const [row] = await database.query(
    (sql) => sql`
      with ended as (
        delete from operator_sessions s
         where s.id = ${uuid}::uuid and s.operator = coalesce(${operator ?? null}::text, s.operator)
        returning ${isLiveSession(sql, now)} as was_alive, null::jsonb as after,
                  jsonb_build_object('session', ${id}::text, 'operator', operator) as before
      ),
      alive as (select * from ended where was_alive),
      logged as (${auditCte(sql, { action: "session.end", actor, at: now, from: sql`alive` })})
      select from alive`,
  );
  return row !== undefined;
}

export interface ListedSession extends Omit<Session, "proof"> {
  readonly createdAt: Date;
  /** Exact to the minute. */
  readonly lastSeenAt: Date;
}

/** People do not have so many sessions at once. */
const MAX_LISTED = 1_000;

/** Lists the sessions that have not ended, newest first. */
export async function listSessions(
  database: Database,
  { now }: { readonly now: Date },
): Promise<readonly ListedSession[]> {
  const rows = await database.query<Omit<ListedSession, "id"> & { readonly uuid: string }>(
    (sql) => sql`
      select s.id as uuid, s.operator, o.role, s.created_at as "createdAt", s.last_seen_at as "lastSeenAt"
        from operator_sessions s join operators o on o.name = s.operator
       where ${isLiveSession(sql, now)} and o.removed_at is null
       order by s.id desc
       limit ${MAX_LISTED}`,
    { isRead: true },
  );
  return rows.map(({ uuid, ...row }) => ({ id: toId("ses", uuid), ...row }));
}

/** Returns the condition that the session `s` has not timed out. */
export function isLiveSession(sql: Sql, now: Date): Fragment {
  return sql`(s.last_seen_at > ${now}::timestamptz - s.idle_minutes * interval '1 minute'
              and s.created_at > ${now}::timestamptz - ${SESSION_HOURS} * interval '1 hour')`;
}

/** Returns the condition that the session `s` has timed out so long ago that no request of it is in progress. */
export function isForgottenSession(sql: Sql, now: Date): Fragment {
  const hours = SESSION_HOURS + LONGEST_REQUEST_HOURS;
  return sql`(s.created_at <= ${now}::timestamptz - ${hours} * interval '1 hour')`;
}

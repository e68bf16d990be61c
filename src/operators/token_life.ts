/** Lists, renews and revokes tokens, and resumes tokens that a restore disabled. */
import { auditCte, type By } from "../audit/mod.ts";
import { NEVER_EXPIRES, PAST_EXPIRY, toTimestamp } from "../base/calendar.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import { type Database, type Fragment, type Sql, toTextArray } from "../database/mod.ts";
import type { Brand } from "../licensing/mod.ts";
import { refuseEarlierEnd } from "../licensing/mod.ts";
import { hashOf } from "./_secret_text.ts";
import { SCOPES_OF_RESTRICTED, SCOPES_RULE } from "./scopes.ts";
import { generateToken, type Token, type TokenColumns, tokenColumns, toToken } from "./tokens.ts";

/** `disabled`: restored from a backup, until it is resumed. `expired` tokens can be renewed; `revoked` is final. */
type TokenState = "active" | "disabled" | "expired" | "revoked";

export interface ListedToken extends Omit<Token, "uuid"> {
  readonly state: TokenState;
  /** As in the audit log, such as `command:olga`. */
  readonly createdBy: string;
  readonly createdAt: Date;
  readonly renewedAt: Date;
  readonly expiresAt: Date | null;
  /** Exact to the minute. */
  readonly lastUsedAt: Date | null;
}

/** Lists all tokens by name, including revoked tokens. */
export async function listTokens(
  database: Database,
  { now }: { readonly now: Date },
): Promise<readonly ListedToken[]> {
  const rows = await database.query<Omit<ListedToken, "restriction" | "sources"> & TokenColumns>(
    (sql) => sql`
      select ${tokenColumns(sql)}, ${stateOf(sql, now)} as state, created_by as "createdBy", created_at as "createdAt",
             renewed_at as "renewedAt", expires_at as "expiresAt", last_used_at as "lastUsedAt"
        from tokens
       order by name collate "C"`,
    { isRead: true },
  );
  return rows.map(toToken);
}

function stateOf(sql: Sql, now: Date): Fragment {
  return sql`case when state = 'active' and expires_at <= ${now}::timestamptz then 'expired' else state end`;
}

interface RenewedToken {
  readonly token: string;
  readonly state: TokenState;
  /** The expiry before and after; null for none. */
  readonly was: Date | null;
  readonly expiresAt: Date | null;
}

/**
 * Gives a token a new secret, and with `expiresAt` another expiry (`NEVER_EXPIRES`: none). Name, scopes and restriction
 * stay the same, and the old secret is refused from then on. Refuses an unknown or revoked token, a token that would still
 * be expired, an earlier expiry unless `shorten` is true, and a token with scopes that a restricted token cannot have.
 */
export async function renewToken(
  database: Database,
  {
    name,
    expiresAt,
    shorten = false,
  }: { readonly name: string; readonly expiresAt?: Date | undefined; readonly shorten?: boolean | undefined },
  { brand, actor, now }: By & { readonly brand: Brand },
): Promise<RenewedToken | Refusal> {
  const token = generateToken(brand);
  const [row] = await database.query<
    TokenChange & { was: Date | null; expiresAt: Date | null; isTooWide: boolean; isEarlier: boolean }
  >(
    (sql) => sql`
      with old as (
        select id, state, expires_at,
               coalesce(tiers[1], mode) is not null
                 and not scopes <@ ${toTextArray(SCOPES_OF_RESTRICTED)}::text[] as is_too_wide,
               nullif(coalesce(${expiresAt ?? null}::timestamptz, expires_at), ${NEVER_EXPIRES}::timestamptz) as ends_at
          from tokens where name = ${name} for update
      ),
      judged as (
        select *, not ${shorten}::boolean and coalesce(ends_at < coalesce(expires_at, 'infinity'), false) as is_earlier
          from old
      ),
      changed as (
        update tokens t
           set hash = ${hashOf(token)}::text::bytea, renewed_at = ${now}::timestamptz, expires_at = old.ends_at
          from judged old
         where t.id = old.id and old.state <> 'revoked' and (old.ends_at is null or old.ends_at > ${now}::timestamptz)
           and not old.is_too_wide and not old.is_earlier
        returning jsonb_build_object('token', t.name, 'expires_at', old.expires_at) as before,
                  jsonb_build_object('token', t.name, 'expires_at', t.expires_at) as after
      ),
      logged as (${auditCte(sql, { action: "token.renew", actor, at: now, from: sql`changed` })})
      select state, expires_at as was, ends_at as "expiresAt", is_too_wide as "isTooWide",
             is_earlier as "isEarlier", exists (select from changed) as "isChanged" from judged`,
  );
  if (row?.isChanged) return { token, state: row.state, was: row.was, expiresAt: row.expiresAt };
  const cannot = `Cannot renew token ${name}`;
  if (row === undefined) return refuseUnknown(cannot);
  if (row.state === "revoked") return refuseForGood(cannot);
  if (row.isTooWide) return refuseForGood(cannot, SCOPES_RULE);
  if (row.isEarlier && row.expiresAt !== null && row.expiresAt > now)
    return refuseEarlierEnd(`renew token ${name}`, { from: row.was, to: row.expiresAt });
  const kept = `it would be expired since ${toTimestamp(row.expiresAt ?? now)}`;
  const stem = `${cannot}: ${expiresAt === undefined ? kept : PAST_EXPIRY}`;
  const fields = expiresAt && [{ field: "expires_at", error: PAST_EXPIRY }];
  return refuse("CONFLICT", stem, { remedy: { name: "extend_token" }, fields });
}

function refuseForGood(cannot: string, why = "it is revoked, which is final"): Refusal {
  return refuse("CONFLICT", `${cannot}: ${why}`, { remedy: { name: "issue_token" } });
}

function refuseUnknown(cannot: string): Refusal {
  return refuse("NOT_FOUND", `${cannot}: no token has this name`, { remedy: { name: "list_tokens" } });
}

/**
 * Revokes a token for good: it is refused from the next request on. Refuses an unknown token. A dry run refuses in the
 * same case and changes nothing.
 */
export async function revokeToken(
  database: Database,
  name: string,
  { isDryRun = false, ...by }: By & { readonly isDryRun?: boolean },
): Promise<TokenChange | Refusal> {
  const change = await changeState(database, name, { ...by, to: "revoked", isDryRun });
  return change ?? refuseUnknown(`Cannot revoke token ${name}`);
}

/** Makes a token active again that a restore disabled. Refuses an unknown or revoked token. */
export async function resumeToken(database: Database, name: string, by: By): Promise<TokenChange | Refusal> {
  const change = await changeState(database, name, { ...by, to: "active" });
  const cannot = `Cannot resume token ${name}`;
  if (change === undefined) return refuseUnknown(cannot);
  return change.state === "revoked" ? refuseForGood(cannot) : change;
}

interface TokenChange {
  /** The state before the change. */
  readonly state: TokenState;
  readonly isChanged: boolean;
}

async function changeState(
  database: Database,
  name: string,
  {
    actor,
    now,
    to,
    isDryRun = false,
  }: By & { readonly to: "active" | "revoked"; readonly isDryRun?: boolean },
): Promise<TokenChange | undefined> {
  const isResumed = to === "active";
  const action = isResumed ? "token.resume" : "token.revoke";
  const from = isResumed ? ["disabled"] : ["active", "disabled"];
  const [row] = await database.query<TokenChange>(
    (sql) => sql`
      with old as (select id, state, expires_at from tokens where name = ${name} for update),
      changed as (
        update tokens t set state = ${to}
          from old
         where t.id = old.id and old.state in ${sql(from)} and not ${isDryRun}::boolean
        returning jsonb_build_object('token', t.name, 'state', old.state) as before,
                  jsonb_build_object('token', t.name, 'state', t.state) as after
      ),
      logged as (${auditCte(sql, { action, actor, at: now, from: sql`changed` })})
      select ${stateOf(sql, now)} as state, exists (select from changed) as "isChanged" from old`,
  );
  return row;
}

/**
 * Disables all active tokens of a database that is being restored: one of them may have been revoked after the backup
 * was made. Returns how many there are. For a transaction of its caller.
 */
export async function disableTokens(sql: Sql): Promise<number> {
  const { count } = await sql`update tokens set state = 'disabled' where state = 'active'`;
  return count;
}

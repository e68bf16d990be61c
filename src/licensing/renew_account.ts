import { auditCte, type By } from "../audit/mod.ts";
import { NEVER_EXPIRES, toTimestamp } from "../base/calendar.ts";
import { toId } from "../base/ids.ts";
import type { Database, Fragment, Sql } from "../database/mod.ts";
import { isLiving } from "./_erased_email.ts";
import type { LicenseChanges } from "./license_changes.ts";
import { isUnstartedSql } from "./start_term.ts";

export interface RenewedLicense {
  readonly licenseUuid: string;
  /** The expiry before the renewal. */
  readonly from: Date;
  readonly expiresAt: Date;
}

/** A license is renewed once in this time, which is also how long the answer to an `Idempotency-Key` is kept. */
const RENEWED_ONCE_HOURS = 24;

/** The effect that a renewal of an account would have. */
export interface Renewable {
  /** The licenses with their new expiry, oldest first. */
  readonly licenses: readonly RenewedLicense[];
  /** Changes whenever one of these licenses gets another expiry. */
  readonly version: string;
}

/** Returns the licenses that a renewal of the account changes. */
export async function findRenewable(
  database: Database,
  accountUuid: string,
  { now }: { readonly now: Date },
): Promise<Renewable> {
  const rows = await database.read<RenewedLicense & Pick<Renewable, "version">>(
    (sql) => sql`
      with old as (${selectRenewable(sql, accountUuid, now)})
      select id as "licenseUuid", expires_at as "from", ${renewedEnd(sql, now)} as "expiresAt",
             (select ${versionOf(sql)} from old) as version
        from old order by id`,
  );
  const licenses = rows.map(({ licenseUuid, from, expiresAt }) => ({ licenseUuid, from, expiresAt }));
  return { licenses, version: rows[0]?.version ?? "" };
}

/**
 * Adds a year to the expiry of every license of an account, in one statement with a row of the audit log for each license.
 * A license that has expired gets a year from now. Licenses that never expire, those that wait for their first use, and
 * licenses whose keys are all revoked, stay as they are. A license that got a later expiry in the last 24 hours stays as it
 * is, too: a client repeats a request if the answer was lost, and this must not add a second year. Returns the changed
 * licenses, oldest first.
 *
 * With a `version` it changes nothing if a license has another expiry since then: two operators with the same page
 * renew once.
 */
export async function renewAccount(
  changes: LicenseChanges,
  accountUuid: string,
  { actor, now, version }: By & { readonly version?: string },
): Promise<RenewedLicense[]> {
  const rows = await changes.change<RenewedLicense>(
    (sql) => sql`
      with old as (
        ${selectRenewable(sql, accountUuid, now)}
         -- Every writer locks the licenses in this order, so two statements never wait for each other.
         order by l.id
           for update of l
      ),
      -- The version of the locked rows: another renewal that ended meanwhile has changed it.
      seen as (
        select ${versionOf(sql)} as version from old
      ),
      -- The licenses when the statement began. If it waited for another renewal, it does not see the row of the audit
      -- log, but the expiry differs.
      begun as (
        select id, expires_at from licenses where account_id = ${accountUuid}::uuid
      ),
      changed as (
        update licenses l
           set expires_at = ${renewedEnd(sql, now)},
               -- A license that has expired before its first use does not wait for one any more.
               term_days = case when l.started_at is not null then l.term_days end,
               latest_start = case when l.started_at is not null then l.latest_start end
          from old join begun using (id, expires_at), seen
         where l.id = old.id and seen.version = coalesce(${version ?? null}::text, seen.version)
        returning l.account_id, l.id as license_id, old.key_id, old.expires_at as "from", l.expires_at,
                  jsonb_build_object('tier', old.tier, 'monthly_limit', old.monthly_limit,
                    'expires_at', old.expires_at) as before,
                  jsonb_build_object('tier', l.tier, 'monthly_limit', l.monthly_limit,
                    'expires_at', l.expires_at) as after
      ),
      logged as (${auditCte(sql, { action: "license.renew", actor, at: now, from: sql`changed` })})
      select license_id as "licenseUuid", "from", expires_at as "expiresAt" from changed order by license_id`,
  );
  return [...rows];
}

/** Renders the renewed licenses of an account as JSON: the command and the API show the same. */
export function renderRenewal(accountUuid: string, renewed: readonly RenewedLicense[]) {
  const licenses = renewed.map(({ licenseUuid, from, expiresAt }) => ({
    id: toId("lic", licenseUuid),
    before: { expires_at: toTimestamp(from) },
    expires_at: toTimestamp(expiresAt),
  }));
  return { id: toId("usr", accountUuid), licenses };
}

/**
 * Selects the licenses that expire, do not wait for their first use, have a key and were not renewed lately, with the
 * newest key: its history then has the change.
 */
function selectRenewable(sql: Sql, accountUuid: string, now: Date): Fragment {
  return sql`
    select l.id, l.account_id, l.tier, l.monthly_limit, l.expires_at, k.id as key_id
      from licenses l
           cross join lateral (select id from keys where license_id = l.id and state <> 'revoked'
                                order by id desc limit 1) k
     where l.account_id = ${accountUuid}::uuid and l.expires_at < ${NEVER_EXPIRES}::timestamptz
       and not (${isUnstartedSql(sql)} and l.expires_at > ${now}::timestamptz)
       and ${isLiving(sql, sql`l.account_id`)}
       -- An expired license was not renewed by a request whose answer was lost: that would have added a year. An earlier
       -- expiry is a correction, which the log has under the same action.
       and (l.expires_at <= ${now}::timestamptz
            -- By its keys: another account may have had the license at the time.
            or not exists (select from keys of_license join audit on audit.key_id = of_license.id
                            where of_license.license_id = l.id and action = 'license.renew'
                              and at > ${now}::timestamptz - ${RENEWED_ONCE_HOURS} * interval '1 hour'
                              and (after ->> 'expires_at')::timestamptz > (before ->> 'expires_at')::timestamptz))`;
}

/** The expiry that a renewal gives a row of `old`. */
function renewedEnd(sql: Sql, now: Date): Fragment {
  return sql`
    least(${NEVER_EXPIRES}::timestamptz,
      (greatest(old.expires_at, date_trunc('second', ${now}::timestamptz)) at time zone 'UTC'
        + interval '1 year') at time zone 'UTC')`;
}

function versionOf(sql: Sql): Fragment {
  return sql`coalesce(md5(string_agg(concat_ws(' ', id, extract(epoch from expires_at)), ',' order by id)), '')`;
}

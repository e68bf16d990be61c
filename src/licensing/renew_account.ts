import { type Actor, auditCte } from "../audit/mod.ts";
import { toTimestamp } from "../calendar.ts";
import type { Database } from "../database/mod.ts";
import { toId } from "../ids.ts";
import { NEVER_EXPIRES } from "./licenses.ts";

export interface RenewedLicense {
  /** The license whose cached keys must be forgotten before a request is answered. */
  readonly licenseUuid: string;
  readonly expiresAt: Date;
}

/**
 * Adds a year to the expiry of every license of an account, in one statement with a row of the audit log for each
 * license. A license that has expired gets a year from now. Licenses that never expire, and licenses whose keys are all
 * revoked, stay as they are. Returns the changed licenses, oldest first.
 */
export async function renewAccount(
  database: Database,
  accountUuid: string,
  { actor, now }: { readonly actor: Actor; readonly now: Date },
): Promise<RenewedLicense[]> {
  const rows = await database.query<RenewedLicense>(
    (sql) => sql`
      with old as (
        select l.id, l.account_id, l.tier, l.monthly_limit, l.expires_at, k.id as key_id
          from licenses l
               -- The newest key: its history in the audit log then has the change.
               cross join lateral (select id from keys where license_id = l.id and state <> 'revoked'
                                    order by id desc limit 1) k
         where l.account_id = ${accountUuid}::uuid and l.expires_at < ${NEVER_EXPIRES}::timestamptz
         -- Every writer locks the licenses in this order; otherwise two could wait for each other.
         order by l.id
           for update of l
      ),
      changed as (
        update licenses l
           set expires_at = least(${NEVER_EXPIRES}::timestamptz,
                 (greatest(old.expires_at, date_trunc('second', ${now}::timestamptz)) at time zone 'UTC'
                   + interval '1 year') at time zone 'UTC')
          from old where l.id = old.id
        returning l.account_id, l.id as license_id, old.key_id, l.expires_at,
                  jsonb_build_object('tier', old.tier, 'monthly_limit', old.monthly_limit,
                    'expires_at', old.expires_at) as before,
                  jsonb_build_object('tier', l.tier, 'monthly_limit', l.monthly_limit,
                    'expires_at', l.expires_at) as after
      ),
      logged as (${auditCte(sql, { action: "license.renew", actor, at: now, from: sql`changed` })})
      select license_id as "licenseUuid", expires_at as "expiresAt" from changed order by license_id`,
  );
  return [...rows];
}

/** Renders the renewed licenses of an account as JSON: the command and the API show the same. */
export function renderRenewal(accountUuid: string, renewed: readonly RenewedLicense[]) {
  const licenses = renewed.map(({ licenseUuid, expiresAt }) => ({
    id: toId("lic", licenseUuid),
    expires_at: toTimestamp(expiresAt),
  }));
  return { id: toId("usr", accountUuid), licenses };
}

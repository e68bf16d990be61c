import { type Actor, auditCte } from "../audit/mod.ts";
import type { Database } from "../database/mod.ts";
import { type Refusal, refuse } from "../refusal.ts";
import type { Tier } from "./tiers.ts";
import { REVOKED, refuseUnknownKey } from "./unknown_key.ts";

/** One change of a license. The license is named by one of its keys, because support desks know the key. */
export type LicenseChange =
  | { readonly action: "license.renew"; readonly expiresAt: Date }
  | { readonly action: "license.tier"; readonly tier: Tier }
  /** Null: the tier's own limit. */
  | { readonly action: "license.limit"; readonly monthlyLimit: number | null };

export interface ChangedLicense {
  readonly tier: Tier;
  /** Null: the tier's own limit. */
  readonly monthlyLimit: number | null;
  readonly expiresAt: Date;
  /** False if the license already had these values; then no row is written. */
  readonly isChanged: boolean;
}

/**
 * Changes the expiry, tier or monthly limit of a key's license, for all keys of the license. Every process
 * applies the change within a second. Refuses an expiry in the past, and a key that is unknown or revoked.
 */
export async function changeLicense(
  database: Database,
  keyUuid: string,
  { change, actor, now }: { readonly change: LicenseChange; readonly actor: Actor; readonly now: Date },
): Promise<ChangedLicense | Refusal> {
  if (change.action === "license.renew" && change.expiresAt <= now) {
    return refuse("INVALID_REQUEST", "Cannot renew license: the expiry lies in the past");
  }
  const expiresAt = change.action === "license.renew" ? change.expiresAt : null;
  const tier = change.action === "license.tier" ? change.tier : null;
  const setsLimit = change.action === "license.limit";
  const monthlyLimit = setsLimit ? change.monthlyLimit : null;
  const [changed] = await database.query<ChangedLicense>(
    (sql) => sql`
      with old as (
        select l.id, l.account_id, l.tier, l.monthly_limit, l.expires_at, k.id as key_id,
               coalesce(${tier}::text, l.tier) as new_tier,
               case when ${setsLimit}::boolean then ${monthlyLimit}::bigint else l.monthly_limit end as new_limit,
               coalesce(${expiresAt}::timestamptz, l.expires_at) as new_expires_at
          from keys k join licenses l on l.id = k.license_id
         where k.id = ${keyUuid}::uuid and k.state <> 'revoked'
           for update of l
      ),
      changed as (
        update licenses l set tier = new_tier, monthly_limit = new_limit, expires_at = new_expires_at
          from old
         where l.id = old.id
           and (new_tier, new_limit, new_expires_at) is distinct from (old.tier, old.monthly_limit, old.expires_at)
        returning l.account_id, l.id as license_id, old.key_id, l.tier, l.monthly_limit, l.expires_at,
                  jsonb_build_object('tier', old.tier, 'monthly_limit', old.monthly_limit,
                    'expires_at', old.expires_at) as before,
                  jsonb_build_object('tier', l.tier, 'monthly_limit', l.monthly_limit,
                    'expires_at', l.expires_at) as after
      ),
      logged as (${auditCte(sql, { action: change.action, actor, at: now, from: sql`changed` })})
      select new_tier as tier, new_limit as "monthlyLimit", new_expires_at as "expiresAt",
             exists (select from changed) as "isChanged"
        from old`,
  );
  return changed ?? (await refuseLicenseChange(database, keyUuid, WHAT[change.action]));
}

const WHAT = {
  "license.renew": "renew license",
  "license.tier": "change tier",
  "license.limit": "change monthly limit",
} as const satisfies Record<LicenseChange["action"], string>;

/** Finds the reason after the attempt, because the statement of the change decides. */
async function refuseLicenseChange(database: Database, keyUuid: string, what: string): Promise<Refusal> {
  const [key] = await database.query(
    (sql) => sql`select state from keys where id = ${keyUuid}::uuid and state = 'revoked'`,
  );
  return key === undefined
    ? refuseUnknownKey(what, keyUuid)
    : refuse("CONFLICT", `Cannot ${what}: ${REVOKED}`);
}

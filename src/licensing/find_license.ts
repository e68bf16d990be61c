import { monthOf } from "../base/calendar.ts";
import { toId } from "../base/ids.ts";
import type { Database } from "../database/mod.ts";
import { type Allowances, selectAllowances } from "./allowances.ts";
import type { Entitled } from "./entitlements.ts";
import { type Featured, featuresAt } from "./features.ts";
import { keyEnd, type ListedState, listedState } from "./key_states.ts";
import type { KeyMode } from "./modes.ts";
import { allowsRow, type Reading, UNRESTRICTED } from "./restriction.ts";
import { selectTerm, type Term } from "./terms.ts";
import { monthlyLimitOf, type Tier } from "./tiers.ts";
import type { Updates } from "./updates.ts";

export type LicenseSummary = NonNullable<Awaited<ReturnType<typeof findLicense>>>;

interface Row extends Allowances, Term, Updates, Featured, Entitled {
  readonly accountUuid: string;
  readonly email: string;
  /** The account's name, which is its e-mail if nobody gave one. */
  readonly name: string;
  /** Empty if nobody gave one. */
  readonly organization: string;
  readonly externalId: string | null;
  readonly tier: Tier;
  /** The license's own limit; null without one. */
  readonly monthlyLimit: number | null;
  /** The inferences of this month. */
  readonly used: number;
  /** The inferences of this month that reports had beyond the limit. */
  readonly over: number;
  readonly expiresAt: Date;
  readonly createdAt: Date;
  /** The newest key first; at most {@linkcode MAX_KEYS}. */
  readonly keys: readonly { uuid: string; mode: KeyMode; state: ListedState }[];
}

/** Each rotation adds a key to the license, so the number of its keys has no bound. */
export const MAX_KEYS = 100;

/**
 * Finds a license by its UUID, with its account, its keys and the use of the month of `now`. Undefined if there is no such
 * license, or if the restriction allows none of its keys.
 */
export async function findLicense(
  database: Database,
  uuid: string,
  { now, restriction = UNRESTRICTED }: Reading,
) {
  const [row] = await database.read<Row>(
    (sql) => sql`
      select a.id as "accountUuid", a.email, a.name, a.organization, l.external_id as "externalId", l.tier,
             l.monthly_limit as "monthlyLimit", ${selectAllowances(sql)}, ${selectTerm(sql)},
             coalesce(u.used, 0) as used, coalesce(u.over, 0) as over, l.expires_at as "expiresAt", l.updates_until as "updatesUntil", l.created_at as "createdAt",
             l.own_features as "ownFeatures", l.own_entitlements as "ownEntitlements",
             t.entitlements as "tierEntitlements",
             (select coalesce(json_agg(newest), '[]')
                from (select id as uuid, mode,
                             ${listedState(sql, { state: sql`k.state`, endsAt: keyEnd(sql), now })} as state
                        from keys k where license_id = l.id and ${allowsRow(sql, restriction)}
                       order by id desc limit ${MAX_KEYS}) newest) as keys
        from licenses l
        join accounts a on a.id = l.account_id
        join tiers t using (tier)
        left join usage u on u.license_id = l.id and u.month = ${monthOf(now.getTime()).firstDay}::date
       where l.id = ${uuid}::uuid`,
  );
  if (row === undefined || row.keys.length === 0) return undefined;
  const { accountUuid, keys, monthlyLimit, ...rest } = row;
  return {
    id: toId("lic", uuid),
    userId: toId("usr", accountUuid),
    ...rest,
    features: featuresAt(rest, now) as readonly string[],
    monthlyLimit: monthlyLimit ?? monthlyLimitOf(rest.tier),
    keys: keys.map(({ uuid: key, mode, state }) => ({ id: toId("key", key), mode, state })),
  };
}

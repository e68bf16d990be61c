import { type AuditAction, auditCte } from "../audit/mod.ts";
import { toId } from "../base/ids.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import { constraintOf, type Database, type Fragment, type Sql } from "../database/mod.ts";
import { ERASED, isLiving } from "./_erased_email.ts";
import {
  ALLOWANCES,
  allowanceColumns,
  allowancePairs,
  allowanceValues,
  newAllowances,
  setAllowances,
} from "./allowances.ts";
import { ENTITLEMENTS_BOUNDED, refuseTooManyEntitlements } from "./entitlements.ts";
import { EXTERNAL_ID_UNIQUE, refuseTakenExternalId } from "./external_id.ts";
import {
  FEATURES_BOUNDED,
  type FeatureChanges,
  MOST_OWN_FEATURES,
  refusePastFeature,
  refuseTooManyFeatures,
} from "./features.ts";
import type { LicenseChanges } from "./license_changes.ts";
import { type LicenseChange, type LicenseValues, refuseShorter } from "./license_effects.ts";
import { latestRestrictedExpiry, noteTexts, refusePastExpiry, tierLimit, withTerms } from "./licenses.ts";
import { refuseSeatsWithoutPlaces } from "./places.ts";
import {
  allowsMode,
  allowsTier,
  isRestricted,
  type RestrictedBy,
  refuseBeyondDefaults,
  refuseRestricted,
  UNRESTRICTED,
} from "./restriction.ts";
import { refuseUnknownKey, refuseUnknownLicense, revokedReason } from "./unknown.ts";

/** A license, named by its own UUID or by the UUID of one of its keys. */
export type LicenseName = { readonly licenseUuid: string } | { readonly keyUuid: string };

interface ChangedLicense {
  readonly licenseUuid: string;
  /** False if the license already had these values; then no row is written. */
  readonly isChanged: boolean;
  /** The values before and after the change. */
  readonly before: LicenseValues;
  readonly after: LicenseValues;
}

interface Options extends RestrictedBy {
  readonly change: LicenseChange;
  /**
   * The expiry, the end of updates and those of granted features may become earlier. By default that is refused: nobody
   * shortens a license by mistake.
   */
  readonly shorten?: boolean | undefined;
  /** The values that were shown before the change: it is refused if the license has other values by now. */
  readonly seen?: LicenseValues | undefined;
}

interface Row extends Pick<ChangedLicense, "licenseUuid" | "isChanged"> {
  readonly isAsSeen: boolean;
  readonly isAllowed: boolean;
  readonly isWithin: boolean;
  readonly isOpen: boolean;
  readonly isLiving: boolean;
  readonly isSame: boolean;
  readonly before: StoredValues;
  readonly after: StoredValues;
}

/** The values of a license as JSON, which has no dates. Features and values are JSON anyhow. */
type StoredValues = Omit<LicenseValues, "expiresAt" | Ends> & {
  readonly expiresAt: string;
} & Readonly<Record<Ends, string | null>>;

type Ends = "updatesUntil" | "latestStart" | "startedAt";

/** Says which keys a change of a license changes, for people. */
export const FOR_ALL_KEYS = "The change applies to all keys of the license";

/**
 * Changes tier, monthly limit, allowances, expiry, end of updates, features, values and external id of a license, for all
 * its keys: one change with one row in the audit log. Every process applies the change within a second. Refuses an expiry
 * in the past, more features or values than a license can have, an end that is earlier than the present one unless
 * `shorten` is true, values that changed since they were `seen`, an external id that another license has, seat minutes
 * without a machine limit, and a revoked key. If all keys of a license are revoked or its account is erased, only its
 * external id can change. The restriction must allow the old and the new tier, and all keys.
 */
export async function changeLicense(
  changes: LicenseChanges,
  name: LicenseName,
  options: Options,
): Promise<ChangedLicense | Refusal> {
  const { change, now } = options;
  const { action, what } = describeChange(change);
  if (change.expiresAt !== undefined && change.expiresAt <= now) return refusePastExpiry(what);
  const past = refusePastFeature(what, change.ownFeatures, now);
  if (past !== undefined) return past;
  let row: Row | undefined;
  try {
    [row] = await changes.change<Row>((sql) => changeStatement(sql, name, { ...options, action }));
  } catch (error) {
    const constraint = constraintOf(error);
    if (constraint === FEATURES_BOUNDED) return refuseTooManyFeatures(what);
    if (constraint === ENTITLEMENTS_BOUNDED)
      return refuseTooManyEntitlements(what, "license", "own_entitlements");
    if (constraint === "seats_need_places") return refuseSeatsWithoutPlaces(what);
    if (constraint !== EXTERNAL_ID_UNIQUE) throw error;
    return await refuseTakenExternalId(changes.database, what, {
      externalId: change.externalId,
      restriction: options.restriction,
    });
  }
  if (row === undefined) return await refuseUnknown(changes.database, name, what);
  if (!row.isAllowed) return refuseRestricted(what);
  if (!row.isWithin) return refuseBeyondDefaults(what);
  if (!row.isOpen)
    return refuse("CONFLICT", `Cannot ${what}: all its keys are revoked`, {
      remedy: { name: "replace_one" },
    });
  if (!row.isLiving) return refuse("CONFLICT", `Cannot ${what}: ${ERASED}, or that is under way`);
  const [before, after] = [toValues(row.before), toValues(row.after)];
  const { licenseUuid, isChanged } = row;
  if (isChanged || row.isSame) return { licenseUuid, isChanged, before, after };
  if (!row.isAsSeen)
    return refuse(
      "CONFLICT",
      `Cannot ${what}: it was changed after these values were shown; look at it again`,
    );
  return refuseShorter(what, before, after) ?? { licenseUuid, isChanged, before, after };
}

function toValues({ expiresAt, ...values }: StoredValues): LicenseValues {
  const toDate = (text: string | null) => (text === null ? null : new Date(text));
  return {
    ...values,
    expiresAt: new Date(expiresAt),
    updatesUntil: toDate(values.updatesUntil),
    latestStart: toDate(values.latestStart),
    startedAt: toDate(values.startedAt),
  };
}

/** A change of one value, or of the places, has its own action in the audit log. */
function describeChange(change: LicenseChange): { readonly action: AuditAction; readonly what: string } {
  const fields = Object.entries(change).flatMap(([field, value]) => (value === undefined ? [] : [field]));
  const only = fields.length === 1 ? fields[0] : undefined;
  if (only === "tier") return { action: "license.tier", what: "change tier" };
  if (only === "monthlyLimit") return { action: "license.limit", what: "change monthly limit" };
  if (only === "expiresAt") return { action: "license.renew", what: "renew license" };
  if (only === "ownFeatures") return { action: "license.features", what: "change features" };
  if (only === "ownEntitlements") return { action: "license.values", what: "change values" };
  if (only === "updatesUntil") return { action: "license.updates", what: "change updates" };
  if (only === "maxOfflineDays") return { action: "license.offline", what: "change offline days" };
  if (
    fields.every((field) => field !== "maxOfflineDays" && (ALLOWANCES as readonly string[]).includes(field))
  )
    return { action: "license.machines", what: "change machines" };
  return { action: "license.change", what: "change license" };
}

function changeStatement(
  sql: Sql,
  name: LicenseName,
  {
    change,
    shorten = false,
    seen,
    actor,
    now,
    restriction = UNRESTRICTED,
    action,
  }: Options & { readonly action: AuditAction },
) {
  const { tier = null, monthlyLimit, expiresAt = null, updatesUntil, externalId } = change;
  const { ownFeatures = {}, ownEntitlements = {} } = change;
  const keepsTerm = sql`started_at is not null or coalesce(${expiresAt}::timestamptz = expires_at, true)`;
  const isForRevoked = Object.entries(change).every(
    ([field, to]) => field === "externalId" || to === undefined,
  );
  return sql`
    with license as (
      ${selectLicense(sql, name)}
    ),
    old as (
      select license.*,
             coalesce(${tier}::text, tier) as new_tier,
             case when ${monthlyLimit !== undefined}::boolean then ${monthlyLimit ?? null}::bigint
                  else monthly_limit end as new_limit,
             ${newAllowances(sql, change)},
             coalesce(${expiresAt}::timestamptz, expires_at) as new_expires_at,
             -- Another expiry that is given before the first use takes the place of the term.
             case when ${keepsTerm} then term_days end as new_term_days,
             case when ${keepsTerm} then latest_start end as new_latest_start,
             case when ${updatesUntil !== undefined}::boolean then ${updatesUntil ?? null}::timestamptz
                  else updates_until end as new_updates_until,
             -- A name with null is removed.
             ${mergeFeatures(sql, ownFeatures, now)} as new_features,
             jsonb_strip_nulls(own_entitlements || ${JSON.stringify(ownEntitlements)}::text::jsonb) as new_entitlements,
             case when ${externalId !== undefined}::boolean then ${externalId ?? null}::text
                  else external_id end collate "C" as new_external_id
        from license
    ),
    judged as (
      select old.*,
             ${allowsTier(sql, restriction, sql`tier`)} and ${allowsTier(sql, restriction, sql`new_tier`)}
               and not exists (select from keys k
                                where k.license_id = old.id and not ${allowsMode(sql, restriction, sql`k.mode`)})
               as is_allowed,
             not ${isRestricted(restriction)}::boolean
               -- A new tier is checked, too: a license may not keep the limit of a higher tier when it gets a lower tier.
               or (((new_tier, new_limit) is not distinct from (tier, monthly_limit)
                    or coalesce(new_limit <= ${tierLimit(sql, sql`new_tier`)}, true))
                   and (new_expires_at = expires_at or new_expires_at <= ${latestRestrictedExpiry(now)}::timestamptz)
                   and (new_features, new_entitlements) = (own_features, own_entitlements)
                   and new_updates_until is not distinct from updates_until
                   -- Machines that are not counted are no privilege of a tier: every license begins without a limit.
                   and (max_machines is null
                        or coalesce(new_max_machines <= max_machines, false)
                           and new_seat_minutes is not distinct from seat_minutes)
                   and (new_self_releases, new_shows_machines, new_max_offline_days)
                       is not distinct from (self_releases, shows_machines, max_offline_days))
               as is_within,
             key_id is not null or ${isForRevoked}::boolean as is_open,
             ${isForRevoked}::boolean or ${isLiving(sql, sql`account_id`)} as is_living,
             ${shorten}::boolean
               or (new_expires_at >= expires_at
                   and coalesce(new_updates_until, 'infinity') >= coalesce(updates_until, 'infinity')
                   and not ${hasShorterFeature(sql)}) as is_no_shorter,
             ${seen === undefined ? sql`true` : isAsSeen(sql, seen)} as is_as_seen,
             (new_tier, new_limit, ${allowanceColumns(sql, "new_")}, new_expires_at, new_term_days, new_updates_until,
              new_features, new_entitlements, new_external_id)
               is not distinct from
             (tier, monthly_limit, ${allowanceColumns(sql)}, expires_at, term_days, updates_until,
              own_features, own_entitlements, external_id) as is_same
        from old
    ),
    changed as (
      update licenses l
         set tier = new_tier, monthly_limit = new_limit, ${setAllowances(sql)}, expires_at = new_expires_at,
             term_days = new_term_days, latest_start = new_latest_start, updates_until = new_updates_until, own_features = new_features,
             own_entitlements = new_entitlements, external_id = new_external_id
        from judged old
       where l.id = old.id and is_allowed and is_within and is_open and is_living and is_no_shorter and is_as_seen
         and not is_same
      returning l.account_id, l.id as license_id, old.key_id,
                jsonb_build_object('tier', old.tier, 'monthly_limit', old.monthly_limit,
                  'expires_at', old.expires_at) ${withTerms(sql, sql`old`)} as before,
                jsonb_build_object('tier', l.tier, 'monthly_limit', l.monthly_limit,
                  'expires_at', l.expires_at) ${withTerms(sql, sql`l`)}
                  ${noteTexts(sql, sql`old`, sql`l`)} as after
    ),
    logged as (${auditCte(sql, { action, actor, at: now, from: sql`changed` })})
    select id as "licenseUuid", is_allowed as "isAllowed", is_within as "isWithin", is_open as "isOpen",
           is_living as "isLiving", is_same as "isSame", is_as_seen as "isAsSeen",
           ${valuesOf(sql, "")} as before, ${valuesOf(sql, "new_")} as after,
           exists (select from changed) as "isChanged"
      from judged`;
}

/** Returns the condition that the license has the values that were shown; they have no fractions of a second. */
function isAsSeen(
  sql: Sql,
  {
    tier,
    monthlyLimit,
    expiresAt,
    updatesUntil,
    ownFeatures,
    ownEntitlements,
    tierEntitlements,
    ...allowances
  }: LicenseValues,
): Fragment {
  return sql`
    (tier, coalesce(monthly_limit, ${tierLimit(sql, sql`tier`)}), ${allowanceColumns(sql)},
      date_trunc('second', expires_at), date_trunc('second', updates_until), own_features, own_entitlements)
    is not distinct from (${tier}, ${monthlyLimit}::bigint, ${allowanceValues(sql, allowances)},
      date_trunc('second', ${expiresAt}::timestamptz), date_trunc('second', ${updatesUntil}::timestamptz),
      ${JSON.stringify(ownFeatures)}::text::jsonb, ${JSON.stringify(ownEntitlements)}::text::jsonb)
    and (${tierEntitlements === undefined}::boolean
         or (select entitlements from tiers t where t.tier = old.tier) = ${JSON.stringify(tierEntitlements ?? {})}::text::jsonb)`;
}

/** Returns the features after a change, without those that have ended if they are too many otherwise. */
function mergeFeatures(sql: Sql, changes: FeatureChanges, now: Date): Fragment {
  return sql`
    (select coalesce(jsonb_object_agg(key, value) filter (
              where merged.count <= ${MOST_OWN_FEATURES}::bigint
                 or coalesce((value->>'until')::timestamptz, 'infinity') > ${now}::timestamptz), '{}')
       from (select key, value, count(*) over () as count
               from jsonb_each(jsonb_strip_nulls(own_features || ${JSON.stringify(changes)}::text::jsonb))) as merged)`;
}

/** Returns the condition that a feature which is and stays granted gets an earlier end. */
function hasShorterFeature(sql: Sql): Fragment {
  const isGranted = (own: Fragment) => sql`(${own}->>'granted')::boolean`;
  const end = (own: Fragment) => sql`coalesce((${own}->>'until')::timestamptz, 'infinity')`;
  const [was, now] = [sql`was.value`, sql`new.value`];
  return sql`
    exists (select from jsonb_each(own_features) was join jsonb_each(new_features) new on new.key = was.key
             where ${isGranted(was)} and ${isGranted(now)} and ${end(now)} < ${end(was)})`;
}

/** Returns the values of a judged license as JSON: the present ones, or the new ones. */
function valuesOf(sql: Sql, prefix: "" | "new_"): Fragment {
  const isNew = prefix === "new_";
  const tier = sql(`${prefix}tier`);
  return sql`
    jsonb_build_object('tier', ${tier},
      'monthlyLimit', coalesce(${isNew ? sql`new_limit` : sql`monthly_limit`}, ${tierLimit(sql, sql`${tier}`)}),
      ${allowancePairs(sql, prefix)},
      'expiresAt', ${isNew ? sql`new_expires_at` : sql`expires_at`},
      'termDays', ${isNew ? sql`new_term_days` : sql`term_days`},
      'latestStart', ${isNew ? sql`new_latest_start` : sql`latest_start`},
      'startedAt', started_at,
      'updatesUntil', ${isNew ? sql`new_updates_until` : sql`updates_until`},
      'ownFeatures', ${isNew ? sql`new_features` : sql`own_features`},
      'ownEntitlements', ${isNew ? sql`new_entitlements` : sql`own_entitlements`},
      'tierEntitlements', (select entitlements from tiers t where t.tier = judged.${tier}),
      'externalId', ${isNew ? sql`new_external_id` : sql`external_id`})`;
}

/**
 * Returns the query that locks the license. `key_id` is the key for the audit log: the key that names the license, or
 * else its newest key that is not revoked. So the history of a key contains the changes of its license.
 */
function selectLicense(sql: Sql, name: LicenseName): Fragment {
  const columns = sql`
    l.id, l.account_id, l.tier, l.monthly_limit, ${allowanceColumns(sql, "l.")}, l.expires_at, l.term_days, l.latest_start,
    l.started_at, l.updates_until, l.own_features, l.own_entitlements, l.external_id, k.id as key_id`;
  if ("keyUuid" in name) {
    return sql`
      select ${columns} from keys k join licenses l on l.id = k.license_id
       where k.id = ${name.keyUuid}::uuid and k.state <> 'revoked'
         for update of l`;
  }
  return sql`
    select ${columns}
      from licenses l
      left join lateral (select id from keys where license_id = l.id and state <> 'revoked'
                          order by id desc limit 1) k on true
     where l.id = ${name.licenseUuid}::uuid
       for update of l`;
}

/** Finds the reason after the attempt, because the statement of the change decides. */
async function refuseUnknown(database: Database, name: LicenseName, what: string): Promise<Refusal> {
  if ("licenseUuid" in name) return refuseUnknownLicense(what, name.licenseUuid);
  const [key] = await database.query(
    (sql) => sql`select state from keys where id = ${name.keyUuid}::uuid and state = 'revoked'`,
  );
  if (key === undefined) return refuseUnknownKey(what, name.keyUuid);
  const { why, remedy } = revokedReason(toId("key", name.keyUuid));
  return refuse("CONFLICT", `Cannot ${what}: ${why}`, { remedy });
}

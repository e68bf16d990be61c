/** The statement that notes a license before it is signed: how long it is valid, and which key signs it. */
import { type Actor, auditCte, nameOfActor } from "../../audit/mod.ts";
import { monthOf } from "../../base/calendar.ts";
import type { Fragment, PendingRows, Sql } from "../../database/mod.ts";
import { holdPlace, keepPlace, type MachineName, toMachineId } from "../machines/mod.ts";
import {
  allowsRow,
  type Entitled,
  effectiveLimit,
  type Featured,
  isUnstartedSql,
  type KeyMode,
  keyEnd,
  lockUnstarted,
  type OfflineDays,
  type Restriction,
  startCtes,
  TIERS,
  UNRESTRICTED,
} from "../mod.ts";

export interface SigningRequest {
  readonly keyUuid: string;
  /** Repeated in the license, so that a client can tell that the answer is the one to its request. */
  readonly nonce?: string | undefined;
  /** The machine, as the client names it. It is signed and never stored. */
  readonly fingerprint?: string | undefined;
  /** The license of the key, if it is known: without it, another statement looks for it. */
  readonly licenseUuid?: string | undefined;
  /** For how many days it is valid; by default as many as a client may have, or as an export usually has. */
  readonly days?: number | undefined;
  readonly actor: Actor;
  readonly now: Date;
}

/** A request with the id of the signed license and the name of the machine. */
export type Named<Request> = Request & {
  readonly jti: string;
  /** Undefined if the fingerprint cannot name a machine. */
  readonly machine: MachineName | undefined;
};

export interface ExportRequest extends SigningRequest {
  readonly restriction?: Restriction | undefined;
}

/** The most days that an operator may choose, and those of an export without a choice. */
export const MOST_EXPORT_DAYS = 3_650;
export const USUAL_EXPORT_DAYS = 365;

/** Notes a license that a client fetches: one row for each key and signing key. */
export function noteFetched(
  sql: Sql,
  { jti, now, machine, offlineDays }: Named<SigningRequest> & { readonly offlineDays: OfflineDays },
): Noting {
  const daysOfTier = sql`case l.tier ${TIERS.map((tier) => sql`when ${tier} then ${offlineDays[tier]}::int`)} end`;
  const mostDays = sql`coalesce(l.max_offline_days, ${daysOfTier})`;
  return {
    mostDays,
    usualDays: mostDays,
    allowed: sql`true`,
    place: keepPlace(sql, { ...placeOfTerms(sql), machine }),
    ctes: sql`
      noted as (
        insert into signed_licenses as s (key_id, kid, jti, expires_at, signed_at, count)
        select key_id, kid, ${jti}::uuid, exp, ${now}::timestamptz, 1 from placed where exp is not null
        on conflict (key_id, kid) do update
          set jti = excluded.jti, expires_at = greatest(s.expires_at, excluded.expires_at),
              signed_at = excluded.signed_at, count = s.count + 1
      )`,
  };
}

/** Notes a license that an operator exports, with a row of its own and one of the audit log. */
export function noteExported(
  sql: Sql,
  { jti, now, machine, actor, restriction = UNRESTRICTED }: Named<ExportRequest>,
): Noting {
  return {
    ...daysOfExport(sql),
    allowed: allowsRow(sql, restriction),
    place: holdPlace(sql, { ...placeOfTerms(sql), machine }),
    ctes: sql`
      noted as (
        insert into exported_licenses (jti, key_id, kid, expires_at, exported_at, exported_by)
        select ${jti}::uuid, key_id, kid, exp, ${now}::timestamptz, ${nameOfActor(actor)}
          from placed where exp is not null
        returning key_id, kid, expires_at
      ),
      changed as (
        select subject.account_id, subject.license_id, subject.key_id, null::jsonb as before,
               jsonb_strip_nulls(jsonb_build_object(
                 'jti', ${jti}::text, 'signing_key', noted.kid, 'expires_at', noted.expires_at,
                 'machine', ${toMachineId(sql, sql`placed.machine_id`)})) as after
          from subject join noted using (key_id) join placed using (key_id)
      ),
      logged as (${auditCte(sql, { action: "license.export", actor, at: now, from: sql`changed` })})`,
  };
}

/** Returns the most days for which an operator may export the license of the row `l`, and those without a choice. */
export function daysOfExport(sql: Sql): Pick<Noting, "mostDays" | "usualDays"> {
  return {
    mostDays: sql`coalesce(l.max_offline_days, ${MOST_EXPORT_DAYS}::int)`,
    usualDays: sql`least(l.max_offline_days, ${USUAL_EXPORT_DAYS}::int)`,
  };
}

/** The SQL that differs between a fetched and an exported license. */
export interface Noting {
  /** The most days for which the license of the row `l` may be signed, and those without a choice. */
  readonly mostDays: Fragment;
  readonly usualDays: Fragment;
  /** The condition that the actor may sign for the rows `k` and `l`. */
  readonly allowed: Fragment;
  /** The query of the place, from `terms`. */
  readonly place: Fragment;
  /** The CTEs that note the license, from `subject` and `placed`. */
  readonly ctes: Fragment;
}

/** The row that the statement of {@linkcode noteLicense} returns; no row for an unknown key. */
export interface Noted extends Featured, Entitled {
  readonly uuid: string;
  readonly licenseUuid: string;
  readonly accountUuid: string;
  readonly mode: KeyMode;
  readonly state: string;
  readonly monthlyLimit: number | null;
  readonly used: number;
  readonly licenseExpiresAt: Date;
  /** Null: every version of a model is for the license. */
  readonly updatesUntil: Date | null;
  readonly endsAt: Date;
  readonly days: number;
  /** The most days for which the license may be signed; 0 forbids it. */
  readonly mostDays: number;
  /** The most days that the license itself sets; null: the tier, or the operator, does. */
  readonly maxOfflineDays: number | null;
  /** Whether another process started the term of the license while the statement ran: then nothing was noted. */
  readonly isOutrun: boolean;
  /** Whether the statement started the term of the license. */
  readonly isStarted: boolean;
  /** Whether the actor may sign for this key. */
  readonly isAllowed: boolean;
  /** Null if the license does not count machines. */
  readonly maxMachines: number | null;
  /** The machine for which the license is signed. */
  readonly machineUuid: string | null;
  /** True if the machine is not active, or if an export finds every place taken. */
  readonly isPlaceRefused: boolean | null;
  /** If every place is taken: how many are, and when one can become free by itself. */
  readonly placesTaken: number | null;
  readonly roomAt: Date | null;
  /** Until when exported licenses hold the place: until the last one ends. Null for a license that a client fetches. */
  readonly placeUntil: Date | null;
  /** Null if the license was not noted. */
  readonly exp: Date | null;
  readonly kid: string | null;
  readonly publicKey: string | null;
  readonly sealed: string | null;
}

/**
 * Returns the statement that chooses the signing key, notes the license, and reads the values that the license will
 * contain. If it notes the license, it also starts the term of one that is unstarted.
 */
export function noteLicense(
  sql: Sql,
  { keyUuid, days, actor, now, machine }: Named<SigningRequest>,
  { mostDays, usualDays, allowed, place, ctes }: Noting,
): PendingRows {
  const end = sql`coalesce(unstarted.ends_at, l.expires_at)`;
  return sql`
    with signer as materialized (
      select kid, public_key, sealed from signing_keys
       where kid = (select kid from signing_keys
                     where signs_from is not null and retired_at is null
                     -- First the key whose time to sign is now. After a failover the database's clock can be behind
                     -- every time in the table: then there is no such key, and the newest key signs.
                     order by (signs_from <= clock_timestamp()
                               and (signs_until is null or signs_until > clock_timestamp())) desc,
                              generation desc
                     limit 1)
      -- Checked again after the lock: a retirement locks the key first, so a key that is being retired signs nothing
      -- more.
         and retired_at is null
         for key share
    ),
    unstarted as materialized (${lockUnstarted(sql, { keyUuid, now })}),
    subject as (
      select k.id as key_id, l.id as license_id, l.account_id, k.mode, k.state, l.tier, ${effectiveLimit(sql)} as monthly_limit,
             coalesce(u.used, 0) as used, ${end} as license_expires_at, l.updates_until,
             l.own_features, l.own_entitlements, t.entitlements as tier_entitlements,
             ${keyEnd(sql, end)} as ends_at, coalesce(${days ?? null}::int, ${usualDays}) as days,
             ${mostDays} as most_days, l.max_offline_days,
             ${isUnstartedSql(sql)} and unstarted.key_id is null as is_outrun, ${allowed} as is_allowed, l.max_machines
        from keys k
        join licenses l on l.id = k.license_id
        join tiers t on t.tier = l.tier
        left join usage u on u.license_id = l.id and u.month = ${monthOf(now.getTime()).firstDay}::date
        left join unstarted on unstarted.key_id = k.id
       where k.id = ${keyUuid}::uuid
      -- A change of the key locks the key first and then its license: in another order, both would deadlock.
         for key share of k
    ),
    terms as (
      select key_id, license_id, max_machines, exp
        from subject,
             date_trunc('second', least(ends_at, ${now}::timestamptz + days * interval '24 hours')) as exp
       where state = 'active' and is_allowed and days between 1 and most_days and exp > ${now}::timestamptz
         and not is_outrun
         and (max_machines is null or ${machine !== undefined}::boolean)
    ),
    -- Without an end where the place is refused: then nothing is noted.
    placed as materialized (
      select key_id, kid, case when most is null or machine_id is not null then exp end as exp, machine_id,
             most is not null and machine_id is null as is_refused, place.used, room_at, place_until
        from terms cross join signer cross join lateral (${place}) as place
    ),
    used_first as (
      select unstarted.* from unstarted join placed using (key_id) where exp is not null
    ),
    ${startCtes(sql, { from: sql`used_first`, actor, now })},
    ${ctes}
    select subject.key_id as uuid, license_id as "licenseUuid", account_id as "accountUuid", mode, state, tier,
           monthly_limit as "monthlyLimit", subject.used, license_expires_at as "licenseExpiresAt",
           own_features as "ownFeatures", own_entitlements as "ownEntitlements",
           tier_entitlements as "tierEntitlements", updates_until as "updatesUntil", ends_at as "endsAt", days,
           most_days as "mostDays", max_offline_days as "maxOfflineDays", is_outrun as "isOutrun",
           exists (select from started) as "isStarted", is_allowed as "isAllowed", max_machines as "maxMachines",
           machine_id as "machineUuid", is_refused as "isPlaceRefused",
           placed.used as "placesTaken", room_at as "roomAt", place_until as "placeUntil",
           exp, signer.kid, public_key as "publicKey", sealed
      from subject left join placed using (key_id) left join signer on true`;
}

/** Locks no license that does not count machines. */
function placeOfTerms(sql: Sql) {
  return {
    licenseUuid: sql`case when terms.max_machines is not null then terms.license_id end`,
    until: sql`terms.exp`,
  };
}

import { monthOf, toDay } from "../../base/calendar.ts";
import { toId } from "../../base/ids.ts";
import { type Database, type Fragment, type Sql, toTextArray } from "../../database/mod.ts";
import { isTaken } from "../machines/mod.ts";
import {
  type Allowances,
  allowsRow,
  type Entitled,
  type Featured,
  featuresAt,
  type KeyMode,
  keyEnd,
  listedState,
  monthlyLimitOf,
  type Reading,
  selectAllowances,
  selectTerm,
  type Term,
  type Tier,
  UNRESTRICTED,
  type Updates,
} from "../mod.ts";
import { splitByFeature } from "./_key_conditions.ts";
import { directionOf, toPlace } from "./_key_order.ts";
import { isListed } from "./_listed_keys.ts";
import type { KeyFilter, KeyOrder } from "./key_filter.ts";
import { findObstacles, type Obstacle, type Obstructed } from "./obstacles.ts";
import { isOfLastHour } from "./too_many_requests.ts";

/** The data of a key for lists, without its text. */
export interface KeySummary extends Allowances, Term, Updates, Featured, Entitled, Obstructed {
  readonly id: string;
  readonly hint: string;
  readonly userId: string;
  readonly licenseId: string;
  /** The operator's own name for the license; null if there is none. */
  readonly externalId: string | null;
  readonly email: string;
  readonly name: string;
  readonly organization: string;
  readonly tier: Tier;
  /** What the license has now, by its tier or beside it. */
  readonly features: readonly string[];
  readonly mode: KeyMode;
  /** Whether the monthly limit is the license's own and not the tier's. */
  readonly hasOwnLimit: boolean;
  readonly createdAt: Date;
  /** Exact to the minute; null for a key that was never used. */
  readonly lastUsedAt: Date | null;
  /** The key that replaced this one; null for a key that was not rotated. */
  readonly replacedBy: string | null;
  /** When it was rotated, if its overlap is not over; null otherwise. */
  readonly overlapsSince: Date | null;
  /** The value that sorts the list, for positions; null in the order of creation. */
  readonly sortedBy: string | null;
  /** All reasons for which the service refuses the key now; empty for a key that works. */
  readonly obstacles: readonly Obstacle[];
  /** The day on which the quota will be used up, by the stored figures; null if it lasts until it resets. `2026-11-27`. */
  readonly runsOutOn: string | null;
  /** How many machines hold a place, up to `MOST_PLACES`; null if machines are not counted. */
  readonly placesTaken: number | null;
}

/** So many machines of a license are counted at most: a page shows many licenses. */
export const MOST_PLACES = 1_000;

interface Row
  extends Omit<
    KeySummary,
    "id" | "userId" | "licenseId" | "replacedBy" | "obstacles" | "hasOwnLimit" | "features"
  > {
  readonly replacedByUuid: string | null;
  readonly uuid: string;
  readonly accountUuid: string;
  readonly licenseUuid: string;
}

/** Lists keys, oldest first, with the use of the month of `now`; all keys without a filter. */
export async function listKeys(
  database: Database,
  { now, filter = {} }: { readonly now: Date; readonly filter?: KeyFilter },
): Promise<KeySummary[]> {
  const restriction = filter.restriction;
  return await select(database, {
    now,
    filter: await splitByFeature(database, { now, filter }),
    restriction,
  });
}

/**
 * Finds one key by its UUID or by its hash (64 hexadecimal digits); undefined if there is no such key, or none that the
 * restriction allows.
 *
 * @example
 * ```ts
 * const unknown = await findKey(database, { hash: hashApiKey(`svc_live_${"0".repeat(48)}`) }, { now });
 * unknown; // undefined
 * ```
 */
export async function findKey(
  database: Database,
  by: { readonly uuid: string } | { readonly hash: string },
  { now, restriction }: Reading,
): Promise<KeySummary | undefined> {
  const [key] = await select(database, { now, restriction, ...by });
  return key;
}

/** Tells whether there is any key, which can be revoked. */
export async function hasKeys(database: Pick<Database, "read">): Promise<boolean> {
  const rows = await database.read((sql) => sql`select from keys limit 1`);
  return rows.length > 0;
}

/** Counts the keys of licenses that are not revoked, by the id of the license; a license without such a key is not in the map. */
export async function countKeysOf(
  database: Database,
  licenseUuids: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const rows = await database.read<{ licenseUuid: string; keys: number }>(
    (sql) => sql`
      select license_id as "licenseUuid", count(*)::integer as keys from keys
       where license_id = any(${toTextArray(licenseUuids)}::uuid[]) and state <> 'revoked'
       group by license_id`,
  );
  return new Map(rows.map(({ licenseUuid, keys }) => [toId("lic", licenseUuid), keys]));
}

interface Selection extends Reading {
  readonly uuid?: string;
  readonly hash?: string;
  readonly filter?: KeyFilter;
}

async function select(
  database: Database,
  { now, uuid, hash, filter = {}, restriction = UNRESTRICTED }: Selection,
): Promise<KeySummary[]> {
  const rows = await database.query<Row>(
    (sql) => sql`
      select k.id as uuid, k.hint, a.id as "accountUuid", l.id as "licenseUuid", a.email, a.name,
             a.organization, l.external_id as "externalId", l.tier, k.mode,
             ${listedState(sql, { state: sql`k.state`, endsAt: keyEnd(sql), now })} as state,
             l.monthly_limit as "monthlyLimit", ${selectAllowances(sql)}, ${selectTerm(sql)},
             coalesce(u.used, 0) as used,
             ${keyEnd(sql)} as "expiresAt", l.expires_at as "licenseExpiresAt", l.updates_until as "updatesUntil",
             l.own_features as "ownFeatures", l.own_entitlements as "ownEntitlements",
             t.entitlements as "tierEntitlements",
             ${filter.by === undefined ? sql`null` : toPlace(sql, filter.by, valueOfKey(sql, filter.by))} as "sortedBy",
             k.created_at as "createdAt", k.last_used_at as "lastUsedAt", k.replaced_by as "replacedByUuid",
             (select n.created_at from keys n where n.id = k.replaced_by and k.state <> 'revoked'
                 and ${keyEnd(sql)} > ${now}::timestamptz) as "overlapsSince",
             coalesce(busy.refused, 0) as "refusedLastHour",
             case when busy.refused > 0 then busy.requests else 0 end as "requestsLastHour",
             to_char(r.day, 'YYYY-MM-DD') as "runsOutOn",
             case when l.max_machines is not null then (
               select count(*) from (select from machines m where m.license_id = l.id and ${isTaken(sql)}
                                      limit ${MOST_PLACES}) as taken) end as "placesTaken"
        from keys k
        join licenses l on l.id = k.license_id
        join accounts a on a.id = l.account_id
        join tiers t on t.tier = l.tier
        left join usage u on u.license_id = l.id and u.month = ${monthOf(now.getTime()).firstDay}::date
        left join figure_runs_out r on r.key_id = k.id and r.day >= ${toDay(now)}::date
        left join lateral (
          select sum(requests)::bigint as requests, sum(refused)::bigint as refused
            from too_many_requests where key_id = k.id and ${isOfLastHour(sql, now)}) as busy on true
       where ${
         uuid !== undefined
           ? sql`k.id = ${uuid}::uuid`
           : hash !== undefined
             ? sql`k.hash = ${`\\x${hash}`}::text::bytea`
             : filter.uuids !== undefined
               ? sql`k.id = any(${toTextArray(filter.uuids)}::uuid[])`
               : isListed(sql, sql`k.id`, { now, filter })
       } and ${allowsRow(sql, restriction)}
       order by ${filter.by === undefined ? sql`` : sql`${valueOfKey(sql, filter.by)} ${directionOf(sql, filter)},`}
                k.id ${directionOf(sql, filter)}
       limit ${filter.limit ?? null}::bigint`,
  );
  return rows.map(({ uuid: key, hint, accountUuid, licenseUuid, replacedByUuid, ...rest }) => {
    const summary = {
      id: toId("key", key),
      hint: toShownHint(key, hint),
      userId: toId("usr", accountUuid),
      licenseId: toId("lic", licenseUuid),
      ...rest,
      features: featuresAt(rest, now),
      monthlyLimit: rest.monthlyLimit ?? monthlyLimitOf(rest.tier),
      hasOwnLimit: rest.monthlyLimit !== null,
      replacedBy: replacedByUuid === null ? null : toId("key", replacedByUuid),
    };
    const obstacles = findObstacles(summary, now);
    // The forecast is older than the key.
    const isOver = obstacles.some((each) => each !== "suspended" && each !== "too_many_requests");
    return { ...summary, obstacles, runsOutOn: isOver ? null : rest.runsOutOn };
  });
}

/** Returns the stored hint of a key; of a key that was imported by its hash, only the prefix is known. */
function toShownHint(uuid: string, hint: string): string {
  return hint.endsWith("…") ? `${hint} id …${uuid.slice(-6)}` : hint;
}

/** Returns what sorts a row of the list. */
function valueOfKey(sql: Sql, by: KeyOrder): Fragment {
  return by === "expiry"
    ? keyEnd(sql)
    : sql`(select place from (${by.select(sql)}) as stored where key_id = k.id)`;
}

/** Finds the hints of keys as lists show them, by the ids of the keys. */
export async function findHints(
  database: Database,
  uuids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const rows = await database.read<{ uuid: string; hint: string }>(
    (sql) => sql`select id as uuid, hint from keys where id = any(${toTextArray(uuids)}::uuid[])`,
  );
  return new Map(rows.map(({ uuid, hint }) => [toId("key", uuid), toShownHint(uuid, hint)]));
}

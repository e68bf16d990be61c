import { monthOf } from "../calendar.ts";
import { type Database, toTextArray } from "../database/mod.ts";
import { toId } from "../ids.ts";
import { effectiveLimit, type ListPart, monthlyLimitOf, type Tier } from "../licensing/mod.ts";
import type { KeyMode } from "./api_key.ts";
import type { KeyState } from "./key_record.ts";

/** The data of a key for lists, without the key itself. */
export interface KeySummary {
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
  readonly mode: KeyMode;
  /** `expired` for an active key after its expiry. */
  readonly state: KeyState | "expired";
  readonly monthlyLimit: number | null;
  readonly used: number;
  /** The expiry of the license, or the key's own expiry, which a rotated key has, if that is earlier. */
  readonly expiresAt: Date;
  readonly licenseExpiresAt: Date;
  readonly createdAt: Date;
  /** Exact to the minute; null for a key that was never used. */
  readonly lastUsedAt: Date | null;
  /** The key that replaced this one; null for a key that was not rotated. */
  readonly replacedBy: string | null;
}

/** The conditions of a list: it contains the keys that meet all given conditions. */
export interface KeyFilter extends ListPart {
  readonly accountUuid?: string | undefined;
  readonly externalId?: string | undefined;
  readonly tier?: Tier | undefined;
  readonly state?: KeySummary["state"] | undefined;
  readonly mode?: KeyMode | undefined;
  /** Keys that expire within this number of days and have not expired yet. */
  readonly expiringWithinDays?: number | undefined;
  /** Keys that were neither used nor issued within this number of days. */
  readonly unusedForDays?: number | undefined;
  /** Keys whose license has used at least this percentage of its month's limit. */
  readonly nearQuotaPercent?: number | undefined;
}

interface Row extends Omit<KeySummary, "id" | "userId" | "licenseId" | "replacedBy"> {
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
  return await select(database, { now, filter });
}

/** Finds one key by its UUID or by its hash (64 hexadecimal digits); undefined if there is no such key. */
export async function findKey(
  database: Database,
  by: { readonly uuid: string } | { readonly hash: string },
  { now }: { readonly now: Date },
): Promise<KeySummary | undefined> {
  const [key] = await select(database, { now, ...by });
  return key;
}

/** Returns the number of all keys, including revoked keys. */
export async function countKeys(database: Database): Promise<number> {
  const [row] = await database.query<{ keys: number }>((sql) => sql`select count(*) as keys from keys`);
  return row?.keys ?? 0;
}

interface Selection {
  readonly now: Date;
  readonly uuid?: string;
  readonly hash?: string;
  readonly filter?: KeyFilter;
}

async function select(
  database: Database,
  { now, uuid, hash, filter = {} }: Selection,
): Promise<KeySummary[]> {
  const rows = await database.query<Row>(
    (sql) => sql`
      with summary as (
        select k.id as uuid, k.hash, k.hint, a.id as "accountUuid", l.id as "licenseUuid", a.email, a.name,
               a.organization, l.external_id as "externalId", l.tier, k.mode,
               case when k.state = 'active' and least(l.expires_at, k.own_expires_at) <= ${now}::timestamptz
                 then 'expired' else k.state end as state,
               l.monthly_limit as "monthlyLimit", coalesce(u.used, 0) as used,
               least(l.expires_at, k.own_expires_at) as "expiresAt", l.expires_at as "licenseExpiresAt",
               k.created_at as "createdAt",
               k.last_used_at as "lastUsedAt", k.replaced_by as "replacedByUuid",
               ${effectiveLimit(sql)} as effective_limit
          from keys k
          join licenses l on l.id = k.license_id
          join accounts a on a.id = l.account_id
          left join usage u on u.license_id = l.id and u.month = ${monthOf(now.getTime()).firstDay}::date
      )
      select uuid, hint, "accountUuid", "licenseUuid", "externalId", email, name, organization, tier, mode, state,
             "monthlyLimit", used, "expiresAt", "licenseExpiresAt", "createdAt", "lastUsedAt", "replacedByUuid"
        from summary
       where (${uuid ?? null}::uuid is null or uuid = ${uuid ?? null}::uuid)
         and (${hash ?? null}::text is null or hash = ${hash ? `\\x${hash}` : null}::text::bytea)
         and (${filter.accountUuid ?? null}::uuid is null or "accountUuid" = ${filter.accountUuid ?? null}::uuid)
         and (${filter.externalId ?? null}::text is null or "externalId" = ${filter.externalId ?? null}::text)
         and (${filter.tier ?? null}::text is null or tier = ${filter.tier ?? null}::text)
         and (${filter.state ?? null}::text is null or state = ${filter.state ?? null}::text)
         and (${filter.mode ?? null}::text is null or mode = ${filter.mode ?? null}::text)
         and (${daysFrom(now, filter.expiringWithinDays)}::timestamptz is null
              or ("expiresAt" > ${now}::timestamptz
                  and "expiresAt" <= ${daysFrom(now, filter.expiringWithinDays)}::timestamptz))
         and (${daysFrom(now, negative(filter.unusedForDays))}::timestamptz is null
              or greatest("lastUsedAt", "createdAt") <= ${daysFrom(now, negative(filter.unusedForDays))}::timestamptz)
         and (${filter.nearQuotaPercent ?? null}::bigint is null
              or used * 100.0 >= effective_limit * ${filter.nearQuotaPercent ?? null}::bigint)
         and (${filter.afterUuid ?? null}::uuid is null or uuid > ${filter.afterUuid ?? null}::uuid)
         ${
           filter.search === undefined
             ? sql``
             : sql`and uuid in (
                 select k.id from licenses l join keys k on k.license_id = l.id
                  where l.account_id = any(${toTextArray(filter.search.accountUuids)}::uuid[])
                  union
                 select k.id from keys k where right(k.hint, 4) = ${filter.search.lastFour}::text)`
         }
       -- UUIDs sort by the time of their creation.
       order by uuid
       limit ${filter.limit ?? null}::bigint`,
  );
  return rows.map(({ uuid: key, accountUuid, licenseUuid, replacedByUuid, ...rest }) => ({
    id: toId("key", key),
    userId: toId("usr", accountUuid),
    licenseId: toId("lic", licenseUuid),
    ...rest,
    monthlyLimit: rest.monthlyLimit ?? monthlyLimitOf(rest.tier),
    replacedBy: replacedByUuid === null ? null : toId("key", replacedByUuid),
  }));
}

const DAY_MS = 86_400_000;

function daysFrom(now: Date, days: number | undefined): Date | null {
  return days === undefined ? null : new Date(now.getTime() + days * DAY_MS);
}

function negative(days: number | undefined): number | undefined {
  return days === undefined ? undefined : -days;
}

import { monthOf } from "../calendar.ts";
import type { Database } from "../database/mod.ts";
import { toId } from "../ids.ts";
import { monthlyLimitOf, type Tier } from "../licensing/mod.ts";
import type { KeyMode } from "./api_key.ts";
import type { KeyState } from "./key_record.ts";

/** A key as people see it in a list: never the key itself. */
export interface KeySummary {
  readonly id: string;
  readonly hint: string;
  readonly userId: string;
  readonly licenseId: string;
  readonly email: string;
  readonly name: string;
  readonly organization: string;
  readonly tier: Tier;
  readonly mode: KeyMode;
  /** `expired` for an active key whose time is over. */
  readonly state: KeyState | "expired";
  readonly monthlyLimit: number | null;
  readonly used: number;
  readonly expiresAt: Date;
  readonly createdAt: Date;
}

interface Row extends Omit<KeySummary, "id" | "userId" | "licenseId"> {
  readonly uuid: string;
  readonly accountUuid: string;
  readonly licenseUuid: string;
}

/** Lists keys, oldest first, with the month's use at `now`. */
export async function listKeys(database: Database, { now }: { readonly now: Date }): Promise<KeySummary[]> {
  return await select(database, { now });
}

/** Finds one key by its UUID or by its hash (64 hexadecimal digits). */
export async function findKey(
  database: Database,
  by: { readonly uuid: string } | { readonly hash: string },
  { now }: { readonly now: Date },
): Promise<KeySummary | undefined> {
  const [key] = await select(database, { now, ...by });
  return key;
}

/** Tells how many keys there are, revoked ones included. */
export async function countKeys(database: Database): Promise<number> {
  const [row] = await database.query<{ keys: number }>((sql) => sql`select count(*) as keys from keys`);
  return row?.keys ?? 0;
}

async function select(
  database: Database,
  { now, uuid = null, hash }: { now: Date; uuid?: string | null; hash?: string },
): Promise<KeySummary[]> {
  const rows = await database.query<Row>(
    (sql) => sql`
      select k.id as uuid, k.hint, a.id as "accountUuid", l.id as "licenseUuid", a.email, a.name,
             a.organization, l.tier, k.mode,
             case when k.state = 'active' and least(l.expires_at, k.own_expires_at) <= ${now}::timestamptz
               then 'expired' else k.state end as state,
             l.monthly_limit as "monthlyLimit", coalesce(u.used, 0) as used,
             least(l.expires_at, k.own_expires_at) as "expiresAt", k.created_at as "createdAt"
        from keys k
        join licenses l on l.id = k.license_id
        join accounts a on a.id = l.account_id
        left join usage u on u.license_id = l.id and u.month = ${monthOf(now.getTime()).firstDay}::date
       where (${uuid}::uuid is null or k.id = ${uuid}::uuid)
         and (${hash ?? null}::text is null or k.hash = ${hash ? `\\x${hash}` : null}::text::bytea)
       order by k.created_at, k.id`,
  );
  return rows.map(({ uuid: key, accountUuid, licenseUuid, ...rest }) => ({
    id: toId("key", key),
    userId: toId("usr", accountUuid),
    licenseId: toId("lic", licenseUuid),
    ...rest,
    monthlyLimit: rest.monthlyLimit ?? monthlyLimitOf(rest.tier),
  }));
}

import type { Fragment, Sql } from "../database/mod.ts";
import { newUuid } from "../ids.ts";
import { monthlyLimitOf, TIERS, type Tier } from "./tiers.ts";

/** The expiry of a license that never ends: a date, because clients parse it as one. */
export const NEVER_EXPIRES = new Date("9999-12-31T23:59:59Z");

/** The expiry of a license that is given none: a year on, to the second, as it is shown. */
export function oneYearAfter(now: Date): Date {
  const then = new Date(now);
  then.setUTCMilliseconds(0);
  then.setUTCFullYear(then.getUTCFullYear() + 1);
  return then;
}

export interface LicenseRequest {
  /** In the form that `parseEmail` gives. */
  readonly email: string;
  /** The e-mail where none is given and the account is new. */
  readonly name?: string | undefined;
  readonly organization?: string | undefined;
  readonly tier: Tier;
  /** Inferences a month instead of the tier's own. */
  readonly monthlyLimit?: number | undefined;
  readonly expiresAt: Date;
  readonly now: Date;
}

/**
 * Gives the parts `account` and `license` of a statement that makes a license, for a known e-mail under
 * the account that has it. Where that account has another name or organization than the one asked for,
 * both parts are empty and nothing is made.
 */
export function licenseCtes(sql: Sql, request: LicenseRequest): Fragment {
  const name = request.name ?? null;
  const organization = request.organization ?? null;
  return sql`
    account as (
      insert into accounts as a (id, email, name, organization, created_at)
      values (${newUuid()}::uuid, ${request.email}, coalesce(${name}::text, ${request.email}),
              coalesce(${organization}::text, ''), ${request.now}::timestamptz)
      -- An update that changes nothing: it makes the known account a row of this part.
      on conflict (email) do update set created_at = a.created_at
        where a.name = coalesce(${name}::text, a.name)
          and a.organization = coalesce(${organization}::text, a.organization)
      returning id, email, name, organization
    ),
    license as (
      insert into licenses (id, account_id, tier, monthly_limit, expires_at, created_at)
      select ${newUuid()}::uuid, account.id, ${request.tier}, ${request.monthlyLimit ?? null}::bigint,
             ${request.expiresAt}::timestamptz, ${request.now}::timestamptz
        from account
      returning id, account_id, tier, monthly_limit, expires_at
    )`;
}

/**
 * Gives the parts `account` and `license` for many lines at once, from a relation `line` with `account_id`
 * and `license_id` (new ones), `email`, `name`, `organization`, `tier`, `monthly_limit` and `expires_at`.
 * A known e-mail keeps its account as it is; of several lines for a new one the first names it.
 */
export function importedLicenseCtes(sql: Sql, now: Date): Fragment {
  return sql`
    account as (
      insert into accounts as a (id, email, name, organization, created_at)
      select distinct on (email) account_id, email, name, organization, ${now}::timestamptz
        from line order by email, account_id
      on conflict (email) do update set created_at = a.created_at
      returning id, email
    ),
    license as (
      insert into licenses (id, account_id, tier, monthly_limit, expires_at, created_at)
      select line.license_id, account.id, tier, monthly_limit, expires_at, ${now}::timestamptz
        from line join account using (email)
      returning id, account_id
    )`;
}

/** The tier's own limits as SQL: {@linkcode monthlyLimitOf} for a column, null for unlimited. */
const TIER_LIMITS_SQL = TIERS.map((tier) => `when '${tier}' then ${monthlyLimitOf(tier)}::bigint`).join(" ");

/** The limit in force for a row of `licenses` under the alias `l`, as SQL; null is unlimited. */
export function effectiveLimit(sql: Sql): Fragment {
  return sql.unsafe(`coalesce(l.monthly_limit, case l.tier ${TIER_LIMITS_SQL} end)`);
}

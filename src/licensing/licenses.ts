import { DAY_AS_END, DAY_MS, END, endOfDay, NEVER_EXPIRES, PAST_EXPIRY } from "../base/calendar.ts";
import { newUuid } from "../base/ids.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import { type Rule, wholeNumber } from "../base/rule.ts";
import type { Fragment, Sql } from "../database/mod.ts";
import { allowanceColumns, allowanceValues, type RequestedAllowances, withAllowances } from "./allowances.ts";
import { changedTexts, type Entitlements, withEntitlements } from "./entitlements.ts";
import { type OwnFeatures, withFeatures } from "./features.ts";
import { type NewTerm, withTerm } from "./terms.ts";
import { monthlyLimitOf, TIERS, type Tier } from "./tiers.ts";
import { withUpdates } from "./updates.ts";

/** The rule for the expiry of a license. */
export const EXPIRY: Rule<Date> = {
  expects: `${END.expects}, or never`,
  keywords: {
    // Not `anyOf` of formats, which some generators of clients cannot read.
    pattern: `${END.keywords.pattern}|^never$`,
    description: `An ISO 8601 timestamp, or \`never\`; ${DAY_AS_END}`,
    examples: [...END.keywords.examples, "never"],
  },
  parse: (text) => (text === "never" ? NEVER_EXPIRES : END.parse(text)),
};

/** The rule for the monthly limit of a license. Each door has its own word for the tier's own limit. */
export const MONTHLY_LIMIT = wholeNumber(0);

/** Returns the refusal of an expiry that has passed; `what` is what cannot be done, such as `issue key`. */
export function refusePastExpiry(what: string): Refusal {
  const fields = [{ field: "expires_at", error: PAST_EXPIRY }];
  return refuse("INVALID_REQUEST", `Cannot ${what}: ${PAST_EXPIRY}`, { fields });
}

/** Returns the default expiry of a license: in a year, in whole seconds. */
export function oneYearAfter(now: Date): Date {
  const then = new Date(now);
  then.setUTCMilliseconds(0);
  then.setUTCFullYear(then.getUTCFullYear() + 1);
  return then;
}

/**
 * Returns the expiry of a license that is renewed by a year: a year after the present one, or from now if it has expired.
 * February 29 becomes February 28. A license that never expires stays so.
 */
export function renewedByYear(expiresAt: Date, now: Date): Date {
  const from = toRenewFrom(expiresAt, now);
  const then = oneYearAfter(from);
  if (then.getUTCMonth() !== from.getUTCMonth()) then.setUTCDate(0);
  return atMostNever(then.getTime());
}

/**
 * Returns the expiry of a license that is renewed by a number of days: so many days after the present expiry, or from now
 * if it has expired. A license that never expires stays so.
 */
export function renewedByDays(
  expiresAt: Date,
  { days, now }: { readonly days: number; readonly now: Date },
): Date {
  return atMostNever(toRenewFrom(expiresAt, now).getTime() + days * DAY_MS);
}

/** Returns the time from which a renewal counts, in whole seconds. */
function toRenewFrom(expiresAt: Date, now: Date): Date {
  return expiresAt > now ? expiresAt : new Date(now.getTime() - (now.getTime() % 1_000));
}

function atMostNever(ms: number): Date {
  return new Date(Math.min(ms, NEVER_EXPIRES.getTime()));
}

/** Returns the latest expiry that a restricted token may give: the end of the day in a year, because it may send the day. */
export function latestRestrictedExpiry(now: Date): Date {
  return endOfDay(oneYearAfter(now));
}

export interface LicenseRequest extends RequestedAllowances {
  /** As `parseEmail` returns it. */
  readonly email: string;
  /** For a new account the e-mail by default. */
  readonly name?: string | undefined;
  readonly organization?: string | undefined;
  readonly tier: Tier;
  /** Inferences a month; the tier's limit by default. */
  readonly monthlyLimit?: number | undefined;
  /** As `planEnd` returns it, with the term. */
  readonly expiresAt: Date;
  /** Undefined for a license whose end is known. */
  readonly term?: NewTerm | undefined;
  /** By default every version of a model is for the license. */
  readonly updatesUntil?: Date | undefined;
  /** By default as the tier has them. */
  readonly ownFeatures?: OwnFeatures | undefined;
  /** By default those of the tier. */
  readonly ownEntitlements?: Entitlements | undefined;
  /** The operator's own name for the license; `TEXT_RULES` has its rule. */
  readonly externalId?: string | undefined;
  readonly now: Date;
}

/** The most characters of an account's name. An e-mail can be longer. */
export const MAX_NAME_LENGTH = 200;

/** Returns the name of a new account for which none is given: its e-mail, as far as a name can have it. */
export function nameFor(email: string): string {
  return email.slice(0, MAX_NAME_LENGTH);
}

/**
 * Returns the CTEs `account` and `license` of a statement that creates a license. A known e-mail keeps its
 * account. If the license may not join that account, or the account has another name or organization than the request,
 * both CTEs are empty and no license is created; `refuseAccount` says why.
 */
export function licenseCtes(
  sql: Sql,
  { joins, ...request }: LicenseRequest & { readonly joins: boolean },
): Fragment {
  const name = request.name ?? null;
  const newName = name ?? nameFor(request.email);
  const organization = request.organization ?? null;
  return sql`
    account as (
      insert into accounts as a (id, email, name, organization, created_at)
      values (${newUuid()}::uuid, ${request.email}, ${newName},
              coalesce(${organization}::text, ''), ${request.now}::timestamptz)
      -- An update that changes nothing: it makes the known account a row of this part.
      on conflict (email) do update set created_at = a.created_at
        where ${joins}::boolean and a.erasing_since is null and a.name = coalesce(${name}::text, a.name)
          and a.organization = coalesce(${organization}::text, a.organization)
      returning id, email, name, organization
    ),
    license as (
      insert into licenses (id, account_id, tier, monthly_limit, ${allowanceColumns(sql)}, expires_at, term_days, latest_start,
                            updates_until, own_features, own_entitlements, external_id, created_at)
      select ${newUuid()}::uuid, account.id, ${request.tier}, ${request.monthlyLimit ?? null}::bigint,
             ${allowanceValues(sql, request)}, ${request.expiresAt}::timestamptz,
             ${request.term?.termDays ?? null}::integer, ${request.term?.latestStart ?? null}::timestamptz,
             ${request.updatesUntil ?? null}::timestamptz,
             ${JSON.stringify(request.ownFeatures ?? {})}::text::jsonb,
             ${JSON.stringify(request.ownEntitlements ?? {})}::text::jsonb,
             ${request.externalId ?? null}::text, ${request.now}::timestamptz
        from account
      returning licenses.*
    )`;
}

/**
 * Returns the CTEs `account` and `license` for many lines at once, from a relation `line` with new `account_id` and
 * `license_id`, `email`, `name`, `organization`, `tier`, `monthly_limit`, the allowances, `expires_at`, `term_days`,
 * `latest_start`, `updates_until`, `own_features`, `own_entitlements` and `external_id`. A known e-mail keeps its account
 * unchanged. For a new e-mail, the first of its lines gives name and organization. A line whose account is being erased has
 * no license.
 */
export function importedLicenseCtes(sql: Sql, now: Date): Fragment {
  return sql`
    account as (
      insert into accounts as a (id, email, name, organization, created_at)
      select distinct on (email) account_id, email, name, organization, ${now}::timestamptz
        from line order by email, account_id
      on conflict (email) do update set created_at = a.created_at where a.erasing_since is null
      returning id, email
    ),
    license as (
      insert into licenses (id, account_id, tier, monthly_limit, ${allowanceColumns(sql)}, expires_at, term_days, latest_start,
                            updates_until, own_features, own_entitlements, external_id, created_at)
      select line.license_id, account.id, tier, monthly_limit, ${allowanceColumns(sql)}, expires_at, term_days, latest_start,
             updates_until, own_features, own_entitlements, external_id, ${now}::timestamptz
        from line join account using (email)
      returning id, account_id
    )`;
}

/** Returns SQL that adds what a row of `licenses` has besides tier, limit and expiry to a `jsonb` of the audit log. */
export function withTerms(sql: Sql, row: Fragment): Fragment {
  return sql`
    ${withAllowances(sql, row)} ${withTerm(sql, row)} ${withUpdates(sql, row)} ${withFeatures(sql, row)} ${withEntitlements(sql, row)}`;
}

/**
 * Returns SQL that adds to a `jsonb` of the audit log what a change gave another text: the external id, and values. It
 * leaves out the texts: a person can be erased from the license, but not from the log, which only grows.
 */
export function noteTexts(sql: Sql, before: Fragment, after: Fragment): Fragment {
  return sql`
    || jsonb_strip_nulls(jsonb_build_object('changed', (
         select jsonb_agg(name) from (
           select 'external_id' as name where ${before}.external_id is distinct from ${after}.external_id
            union all
           ${changedTexts(sql, sql`${before}.own_entitlements`, sql`${after}.own_entitlements`)}) as texts)))`;
}

/** The limits of the tiers as SQL, like {@linkcode monthlyLimitOf}; null means unlimited. */
const TIER_LIMITS_SQL = TIERS.map((tier) => `when '${tier}' then ${monthlyLimitOf(tier)}::bigint`).join(" ");

/** Returns the effective limit of a row of `licenses` with the alias `l`, as SQL; null means unlimited. */
export function effectiveLimit(sql: Sql): Fragment {
  return sql`coalesce(l.monthly_limit, ${tierLimit(sql, sql`l.tier`)})`;
}

/** Returns the limit of a tier, as SQL; null means unlimited. */
export function tierLimit(sql: Sql, tier: Fragment): Fragment {
  return sql`case ${tier} ${sql.unsafe(TIER_LIMITS_SQL)} end`;
}

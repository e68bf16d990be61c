/**
 * Restrictions of tokens. A token with a restriction may only see keys, change keys, or be given keys, of certain tiers
 * or of one mode. It also may not give limits and expiries beyond the defaults of the tier: otherwise a stolen token for
 * free keys could make a free key as good as an enterprise key.
 */

import type { By } from "../audit/mod.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import { type Database, type Fragment, type Sql, toTextArray } from "../database/mod.ts";
import { ERASED, ERASING, isErased } from "./_erased_email.ts";
import { findAccount } from "./accounts.ts";
import { PRIVILEGES } from "./allowances.ts";
import { type LicenseRequest, latestRestrictedExpiry } from "./licenses.ts";
import type { KeyMode } from "./modes.ts";
import { monthlyLimitOf, type Tier } from "./tiers.ts";

/** The keys that an actor may see, change or be given: only those of certain tiers, or of one mode. */
export interface Restriction {
  /** All tiers by default. */
  readonly tiers?: readonly Tier[] | undefined;
  /** Both modes by default. */
  readonly mode?: KeyMode | undefined;
  /** Whether a new key may join an account that exists already; counts only if there are tiers or a mode. */
  readonly joins?: boolean | undefined;
}

/** When something is read, and the restriction of the reader; by default none. */
export interface Reading {
  readonly now: Date;
  readonly restriction?: Restriction | undefined;
}

/** Who makes a change and when, and the restriction of the actor; by default none. */
export interface RestrictedBy extends By {
  readonly restriction?: Restriction | undefined;
}

/** The restriction of an actor who may change every key. */
export const UNRESTRICTED: Restriction = {};

/** Tells whether there is a restriction at all. Then limits and expiries beyond the tier's defaults are refused too. */
export function isRestricted({ tiers, mode }: Restriction): boolean {
  return tiers !== undefined || mode !== undefined;
}

/** Tells whether a new key may join an account that exists already. The statement that joins must contain it. */
export function mayJoin(restriction: Restriction): boolean {
  return restriction.joins === true || !isRestricted(restriction);
}

/** Tells whether the restriction allows a key that was read. A change must also check this in its statement. */
export function allowsKey(
  { tiers, mode }: Restriction,
  key: { readonly tier: Tier; readonly mode: KeyMode },
): boolean {
  return (tiers === undefined || tiers.includes(key.tier)) && (mode === undefined || mode === key.mode);
}

/** Returns the condition, as SQL, that the restriction allows a tier. The statement of a change must contain it. */
export function allowsTier(sql: Sql, { tiers }: Restriction, tier: Fragment): Fragment {
  return tiers === undefined ? sql`true` : sql`${tier} = any(${toTextArray(tiers)}::text[])`;
}

/** Returns the condition, as SQL, that the restriction allows a mode. The statement of a change must contain it. */
export function allowsMode(sql: Sql, { mode }: Restriction, ofKey: Fragment): Fragment {
  return mode === undefined ? sql`true` : sql`${ofKey} = ${mode}::text`;
}

/** Returns the condition, as SQL, that the restriction allows a row of `keys` (`k`) with its row of `licenses` (`l`). */
export function allowsRow(sql: Sql, restriction: Restriction): Fragment {
  return sql`${allowsTier(sql, restriction, sql`l.tier`)} and ${allowsMode(sql, restriction, sql`k.mode`)}`;
}

/** Refuses a change of a key or license that the restriction does not allow; says nothing about the key. */
export function refuseRestricted(what: string): Refusal {
  return refuse("NOT_ALLOWED", `Cannot ${what}: the token is restricted to other tiers or to another mode`);
}

/** Returns why no license was created under an account. Who may not join it learns nothing about it. */
export async function refuseAccount(
  database: Database,
  email: string,
  restriction: Restriction,
): Promise<Refusal> {
  if (mayJoin(restriction)) {
    if (isErased({ email })) return refuse("CONFLICT", `Cannot issue key: ${ERASED}`);
    const account = await findAccount(database, { email });
    if (account?.erasingSince) return refuse("CONFLICT", `Cannot issue key: ${ERASING}`);
    const stem = `Cannot issue key: the account ${email} has another name or organization`;
    return refuse("CONFLICT", stem, { remedy: { name: "change_account", of: email } });
  }
  const why =
    "the account exists already, and a restricted token adds keys to such accounts only with the scope accounts:join";
  return refuse("CONFLICT", `Cannot issue key: ${why}`);
}

/** Refuses a limit or an expiry that is beyond the defaults of the tier, and more machines than an operator gave. */
export function refuseBeyondDefaults(what: string): Refusal {
  return refuse(
    "NOT_ALLOWED",
    `Cannot ${what}: a restricted token may not give a monthly limit above the tier's own, an expiry later than in a year, another end of updates, features or values beside the tier, releases by clients, names of machines or offline days of the license's own, or more machines or other seats than the license has`,
  );
}

/** Refuses a new key that the restriction does not allow; undefined if it allows the key. */
export function refuseNewKey(
  restriction: Restriction,
  request: Pick<
    LicenseRequest,
    | "tier"
    | "monthlyLimit"
    | "expiresAt"
    | "updatesUntil"
    | "ownFeatures"
    | "ownEntitlements"
    | "now"
    | (typeof PRIVILEGES)[number]
  > & {
    readonly mode: KeyMode;
  },
): Refusal | undefined {
  if (!isRestricted(restriction)) return undefined;
  if (!allowsKey(restriction, request)) return refuseRestricted("issue key");
  const { monthlyLimit = 0, expiresAt, updatesUntil, ownFeatures = {}, ownEntitlements = {}, now } = request;
  const hasOwn =
    Object.keys(ownFeatures).length + Object.keys(ownEntitlements).length > 0 ||
    PRIVILEGES.some((name) => (request[name] ?? null) !== null);
  const isWithin = monthlyLimit <= (monthlyLimitOf(request.tier) ?? Number.POSITIVE_INFINITY);
  return isWithin && !hasOwn && updatesUntil === undefined && expiresAt <= latestRestrictedExpiry(now)
    ? undefined
    : refuseBeyondDefaults("issue key");
}

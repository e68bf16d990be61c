/** The conditions of a list of keys, as SQL for a row of `listed_keys`. */
import { DAY_MS } from "../../base/calendar.ts";
import { type Database, type Fragment, type Sql, toTextArray } from "../../database/mod.ts";
import {
  featuresOf,
  type ListedState,
  MODES,
  selectKeysOfExternalId,
  TIERS,
  type Tier,
  UNRESTRICTED,
} from "../mod.ts";
import { isAfter } from "./_key_order.ts";
import type { KeyFilter, StoredList } from "./key_filter.ts";
import { listTooMany } from "./too_many_requests.ts";

/**
 * A stored list of up to this many keys is short: its hash fits into the memory of a statement, and takes some 10 ms.
 */
const SHORT_LIST = 50_000;

export interface ListOptions {
  /** All conditions that `listed_keys` and the stored lists can answer. */
  readonly filter: KeyFilter;
  readonly now: Date;
  /** The order does not count: each part is read in the order of its index, and none of them to its end. */
  readonly isCount?: boolean;
}

/** Returns the keys whose licenses were granted a feature that holds now. */
function grantedKeys(sql: Sql, feature: string, now: Date): Fragment {
  return sql`
    select key_id from listed_features
     where feature = ${feature} and is_granted and ${isNow(sql, now)}`;
}

function isNow(sql: Sql, now: Date): Fragment {
  return sql`ends_at > ${now}::timestamptz`;
}

/**
 * Returns the condition that the license of a row of `listed_keys` has a feature now: what it has beside its tier decides, or
 * else the tier.
 */
function hasFeature(sql: Sql, feature: string, now: Date): Fragment {
  return sql`
    coalesce((select is_granted from listed_features
               where feature = ${feature} and key_id = listed_keys.key_id and ${isNow(sql, now)}),
             tier = any(${toTextArray(tiersWith(feature))}::text[]))`;
}

function tiersWith(feature: string): Tier[] {
  return TIERS.filter((tier) => featuresOf(tier).includes(feature));
}

/**
 * Returns two filters for the condition of a feature: keys of the tiers that have it, and keys of the other tiers that were
 * granted it, which are a stored list. So each is as fast as the lists without this condition.
 */
export async function splitByFeature(database: Database, { filter, now }: ListOptions): Promise<KeyFilter> {
  const { feature } = filter;
  if (feature === undefined) return filter;
  const [row] = await database.read<{ keys: number }>(
    (sql) => sql`
      select count(*) as keys from (select from (${grantedKeys(sql, feature, now)}) as granted limit ${SHORT_LIST + 1}) as found`,
  );
  const granted = { keys: row?.keys ?? 0, select: (sql: Sql) => grantedKeys(sql, feature, now) };
  return { ...filter, granted };
}

/** The tiers of the two parts into which the condition of a feature divides a list. */
export function tiersOfParts({ feature = "" }: KeyFilter): {
  readonly having: Tier[];
  readonly others: Tier[];
} {
  const having = tiersWith(feature);
  return { having, others: TIERS.filter((tier) => !having.includes(tier)) };
}

/** Whether no condition divides the keys, apart from the stored lists. */
export function isOneGroup(filter: KeyFilter): boolean {
  if (filter.by === "expiry") return false;
  const { tiers, modes } = kindsOf(filter);
  const isUndivided = tiers.length === TIERS.length && modes.length === MODES.length;
  const { state, feature, expiringWithinDays, refused } = filter;
  return (
    isUndivided &&
    feature === undefined &&
    state === undefined &&
    expiringWithinDays === undefined &&
    refused === undefined
  );
}

/** Returns the tiers and modes that both the conditions and the restriction allow. */
export function kindsOf({ tier, ofTiers = TIERS, mode, restriction = UNRESTRICTED }: KeyFilter) {
  return {
    tiers: ofTiers.filter((each) => each === (tier ?? each) && (restriction.tiers?.includes(each) ?? true)),
    modes: (mode ? [mode] : MODES).filter((each) => each === (restriction.mode ?? each)),
  };
}

/**
 * Returns the condition that a row of `listed_keys` is on the stored lists. With `offset 0` each row is looked up; with
 * `is true`, which the planner cannot turn into a join, a short list is read once into a hash.
 */
export function isStored(sql: Sql, { stored = [] }: KeyFilter, isOfGroup: boolean): Fragment {
  return stored.reduce(
    (before, list) =>
      isOfGroup && list.keys <= SHORT_LIST
        ? sql`${before} and (listed_keys.key_id in (${list.select(sql)})) is true`
        : sql`${before} and ${isOn(sql, list)}`,
    sql``,
  );
}

/** Returns the condition that a row of `listed_keys` is on a stored list, in which it is looked up. */
function isOn(sql: Sql, { select }: StoredList): Fragment {
  return sql`exists (select from (${select(sql)}) as list where list.key_id = listed_keys.key_id offset 0)`;
}

/** Returns the condition that a row of `listed_keys` meets the filter, without the search. */
export function meets(sql: Sql, { filter, now }: ListOptions): Fragment {
  const { accountUuid, externalId, state, feature, refused } = filter;
  const { tiers, modes } = kindsOf(filter);
  const { after, until } = expiriesOf({ filter, now });
  const none = sql``;
  return sql`true
       ${accountUuid === undefined ? none : sql`and account_id = ${accountUuid}::uuid`}
       ${externalId === undefined ? none : sql`and key_id = any(array(${selectKeysOfExternalId(sql, externalId)}))`}
       ${tiers.length === TIERS.length ? none : sql`and tier ${isOneOf(sql, tiers)}`}
       ${state === undefined ? none : sql`and state = ${storedState(state)}`}
       ${modes.length === MODES.length ? none : sql`and mode ${isOneOf(sql, modes)}`}
       ${feature === undefined ? none : sql`and ${hasFeature(sql, feature, now)}`}
       ${refused === undefined ? none : sql`and ${isRefused(sql, refused, now)}`}
       ${after === undefined ? none : sql`and expires_at > ${after}::timestamptz`}
       ${until === undefined ? none : sql`and expires_at <= ${until}::timestamptz`}
       ${filter.expiringWithinDays === undefined ? none : sql`and ${isOfExpiring(sql, until)}`}
       and ${typeof filter.by === "object" ? sql`true` : isAfter(sql, sql`listed_keys.key_id`, filter)}`;
}

/**
 * Returns the condition that the license of a row of `listed_keys` ends until then, too: a rotated key ends with its
 * overlap, and its customer loses nothing. Looked up for each row, which is one of few: the planner does not turn a
 * scalar into a join.
 */
function isOfExpiring(sql: Sql, until: Date | undefined): Fragment {
  return sql`
    (select l.expires_at from keys k join licenses l on l.id = k.license_id
      where k.id = listed_keys.key_id) <= ${until ?? null}::timestamptz`;
}

/** Returns the condition that a row of `listed_keys` is that of a key that is refused now and not revoked. */
function isRefused(sql: Sql, usedUp: StoredList, now: Date): Fragment {
  return sql`
    case state when 'revoked' then false when 'suspended' then true
               else expires_at <= ${now}::timestamptz or ${isOn(sql, usedUp)} or ${isOn(sql, listTooMany(now))} end`;
}

/** One value is compared with `=`: only then the index has the order of a page. Without a value no row is found. */
function isOneOf(sql: Sql, [first = "", ...others]: readonly string[]): Fragment {
  return others.length === 0 ? sql`= ${first}` : sql`= any(${toTextArray([first, ...others])}::text[])`;
}

/** Returns how `listed_keys` has a state: an expired key is stored as active. */
export function storedState(state: ListedState): string {
  return state === "expired" ? "active" : state;
}

/** Returns the range of expiries that the filter includes: after the first instant, up to the second one. */
export function expiriesOf({ filter: { state, expiringWithinDays: days }, now }: ListOptions) {
  const end = days === undefined ? undefined : new Date(now.getTime() + days * DAY_MS);
  return {
    after: state === "active" || days !== undefined ? now : undefined,
    until: state === "expired" ? now : end,
  };
}

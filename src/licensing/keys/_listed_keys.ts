/**
 * Selects the keys of a page from `listed_keys`, which has everything that lists filter by.
 *
 * A page must not read a million rows because few keys meet its filter, and the planner does not know which
 * combinations are rare. So the page is merged from groups: an index returns the first keys of each expiry month, tier,
 * mode and state that the filter includes. The cost depends on the number of groups (some hundred) and not on the
 * number of keys. Keys that do not meet the filter are read only in the first and the last month of a range of expiries.
 *
 * The stored lists of the room `figures` (keys near their quota, unused keys) come without these groups. The first
 * keys of a list are looked up: they fill the page unless the other conditions are rare. In that case the groups are
 * merged and filtered by the stored list. For this a short list is read once; in a long list each key is looked up,
 * because every large group has keys of a long list.
 *
 * In the order of expiries the groups have no months: an index has the keys of each tier, mode and state in that order.
 * The orders by use are stored lists of 10,000 keys with the value that sorts them, so each key of them can be looked up.
 */

import {
  countRows,
  type Database,
  type Fragment,
  MOST_COUNTED,
  type Sql,
  selectMonths,
  toTextArray,
} from "../../database/mod.ts";
import { KEY_STATES, selectNamedKeys } from "../mod.ts";
import {
  expiriesOf,
  isOneGroup,
  isStored,
  kindsOf,
  type ListOptions,
  meets,
  splitByFeature,
  storedState,
  tiersOfParts,
} from "./_key_conditions.ts";
import { columnsOf, inOrder, isAfter } from "./_key_order.ts";
import type { KeyFilter, StoredList, StoredOrder } from "./key_filter.ts";
import { listTooMany } from "./too_many_requests.ts";

/** A longer list reads all keys, which then costs less than groups. */
const MAX_PAGE = 500;
/** For each key of a page, this many keys of a list are looked up before the groups are merged. */
const LOOKED_UP = 50;
/** A longer stored list is not counted together with other conditions: each key of it would be looked up. */
const LONGEST_COUNTED = 20_000;

/**
 * Counts the keys of a list up to a number, and those after a position. Undefined if it would take too long: a long
 * stored list together with other conditions, or a search that is too wide in the order of expiries.
 */
export async function countListed(
  database: Database,
  { now, filter: given }: ListOptions,
): Promise<number | undefined> {
  const filter = await splitByFeature(database, { now, filter: given });
  const isTooWide = filter.search?.isTooWide && filter.by === "expiry";
  if (isTooWide || looksUpLongList(filter)) return undefined;
  const options = { now, filter: { ...filter, limit: MOST_COUNTED + 1 }, isCount: true };
  return await countRows(database, (sql) => candidates(sql, options));
}

/** Tells whether a count would look up each key of a long stored list, because nothing else makes the keys few. */
function looksUpLongList(filter: KeyFilter): boolean {
  const { by, stored = [], refused, granted, accountUuid, search, externalId } = filter;
  const isOfFew = (accountUuid ?? search ?? externalId) !== undefined;
  const isInStoredOrder = typeof by === "object" && refused === undefined;
  const isOneList = isOneGroup(filter) && stored.length < 2;
  if (isOfFew || isInStoredOrder || isOneList) return false;
  if (granted !== undefined && granted.keys > LONGEST_COUNTED) return true;
  const lists = refused === undefined ? stored : [...stored, refused];
  return lists.length > 0 && lists.every(({ keys }) => keys > LONGEST_COUNTED);
}

/**
 * Lists the UUIDs of at most `most` keys that meet the conditions of a list, in any order. Without an order it costs
 * little even if few keys meet them.
 */
export async function listUuids(
  database: Database,
  { now, filter: given, most }: ListOptions & { readonly most: number },
): Promise<string[]> {
  const filter = await splitByFeature(database, { now, filter: given });
  const options = { now, filter: { ...filter, by: undefined, limit: most }, isCount: true };
  const rows = await database.query<{ uuid: string }>(
    (sql) => sql`select key_id as uuid from (${candidates(sql, options)}) as candidate limit ${most}::bigint`,
  );
  return rows.map(({ uuid }) => uuid);
}

/** Returns the condition, as SQL, that an id is that of a key of the list. */
export function isListed(sql: Sql, id: Fragment, options: ListOptions): Fragment {
  const { filter } = options;
  const found = candidates(sql, options);
  // The planner does not take the position from the list, and would read all keys before it for each page.
  if (isLong(options)) return sql`${id} in (${found}) and ${isAfter(sql, id, filter)}`;
  const ids = sql`select key_id from (${found}) as candidate`;
  if (filter.limit === undefined) return sql`${id} in (${ids})`;
  // As an array, so that the planner expects few keys and looks up each by its id.
  return sql`${id} = any(array(${ids} ${inOrder(sql, filter)}))`;
}

/** Selects at least the keys of the list: all keys that meet the filter, or the first ones of each part. */
function candidates(sql: Sql, options: ListOptions): Fragment {
  const { externalId, search, accountUuid, stored, refused, granted, by } = options.filter;
  if (typeof by === "object") return selectInStoredOrder(sql, options, by);
  const accountUuids = search?.accountUuids ?? (accountUuid === undefined ? undefined : [accountUuid]);
  if (accountUuids !== undefined) return selectOfAccounts(sql, options, accountUuids);
  if (externalId !== undefined) return selectFirst(sql, options, sql``);
  if (stored !== undefined) return selectOfLists(sql, options, stored);
  if (refused !== undefined) return selectRefused(sql, options, refused);
  if (granted !== undefined) return selectWithFeature(sql, options, granted);
  return selectOfGroups(sql, options);
}

/**
 * Selects the keys that are refused now, each state in its own way. A key is in one state, so only active keys can be
 * found twice. Without `union` for the others, a count ends before it has read all expired keys.
 */
function selectRefused(sql: Sql, options: ListOptions, usedUp: StoredList): Fragment {
  const { filter, now } = options;
  const select = (part: KeyFilter) =>
    sql`(${candidates(sql, { ...options, filter: { ...filter, refused: undefined, ...part } })})`;
  const onList = (list: StoredList) => select({ state: "active", stored: [list] });
  const ofState = {
    suspended: () => select({ state: "suspended" }),
    expired: () => select({ state: "expired" }),
    active: () => sql`(${onList(usedUp)} union ${onList(listTooMany(now))})`,
    // A revoked key is refused for good.
    revoked: () => sql`select ${columnsOf(sql, filter)} from listed_keys where false`,
  };
  return filter.state === undefined
    ? sql`${ofState.suspended()} union all ${ofState.expired()} union all ${ofState.active()}`
    : ofState[filter.state]();
}

/** Selects the keys that meet the filter from the first keys by a stored value: each of them is looked up. */
function selectInStoredOrder(sql: Sql, options: ListOptions, { select }: StoredOrder): Fragment {
  const { filter } = options;
  const { search, accountUuid, externalId } = filter;
  const unsorted = { ...filter, by: undefined, afterUuid: undefined, limit: undefined };
  const isOfAccounts =
    (search ?? accountUuid ?? externalId) === undefined
      ? sql``
      : sql`and (key_id in (${candidates(sql, { ...options, filter: unsorted })})) is true`;
  const isMet = sql`
    cross join lateral (
      select from listed_keys
       where listed_keys.key_id = first.key_id and ${meets(sql, options)} ${isStored(sql, filter, false)} offset 0) as met`;
  return sql`
    select key_id, place
      from (select key_id, place from (${select(sql)}) as stored
             where ${isAfter(sql, sql`key_id`, filter)} ${isOfAccounts}) as first
           ${isOneGroup(filter) && filter.stored === undefined ? sql`` : isMet}
     ${inOrder(sql, filter)}`;
}

/** Selects the keys with a feature: those whose tier has it, and those of other tiers that were granted it. */
function selectWithFeature(sql: Sql, options: ListOptions, granted: StoredList): Fragment {
  const { having, others } = tiersOfParts(options.filter);
  const select = (part: KeyFilter) =>
    sql`(${candidates(sql, { ...options, filter: { ...options.filter, granted: undefined, ...part } })})`;
  return sql`${select({ ofTiers: having })} union all ${select({ ofTiers: others, stored: [granted] })}`;
}

function isLong({ filter: { limit, by }, isCount }: ListOptions): boolean {
  return !isCount && by === undefined && (limit === undefined || limit > MAX_PAGE);
}

/** Selects the first keys that meet the filter, and a further condition. */
function selectFirst(sql: Sql, options: ListOptions, isAlso: Fragment, isOfGroup = false): Fragment {
  return sql`
    select ${columnsOf(sql, options.filter)} from listed_keys
     where ${meets(sql, options)} ${isAlso} ${isStored(sql, options.filter, isOfGroup)} ${inOrder(sql, options.filter)}`;
}

function selectOfAccounts(sql: Sql, options: ListOptions, accountUuids: readonly string[]): Fragment {
  const { search } = options.filter;
  const ofAccounts = sql`
    select found.*
      from unnest(${toTextArray(accountUuids)}::uuid[]) as account (id)
           cross join lateral (${selectFirst(sql, options, sql`and account_id = account.id`)}) as found`;
  if (search === undefined) return ofAccounts;
  const isNamed = sql`and key_id = any(array(${selectNamedKeys(sql, search)}))`;
  return sql`${ofAccounts} union (${selectFirst(sql, options, isNamed)})`;
}

function selectOfGroups(sql: Sql, options: ListOptions): Fragment {
  const { filter } = options;
  const { state } = filter;
  const { tiers, modes } = kindsOf(filter);
  if (isOneGroup(filter) || isLong(options)) return selectFirst(sql, options, sql``, true);
  const isOfGroup = sql`and tier = each.tier and mode = either.mode and state = one.state`;
  // The index for the order of expiries needs no months: it has the keys of each group in that order.
  const [months, isOfMonth] =
    filter.by === "expiry"
      ? [sql`select`, sql``]
      : [selectMonthsOf(sql, options), sql`and expiry_month = month.begins_at`];
  return sql`
    select page.*
      from (${months}) as month
           cross join unnest(${toTextArray(tiers)}::text[]) as each (tier)
           cross join unnest(${toTextArray(modes)}::text[]) as either (mode)
           cross join unnest(${toTextArray(state ? [storedState(state)] : KEY_STATES)}::text[]) as one (state)
           cross join lateral (${selectFirst(sql, options, sql`${isOfMonth} ${isOfGroup}`, true)}) as page`;
}

/** Selects the keys of the stored lists that meet the filter. */
function selectOfLists(sql: Sql, options: ListOptions, stored: readonly StoredList[]): Fragment {
  const { filter } = options;
  const { limit = 0 } = filter;
  const lists = stored.toSorted((one, other) => one.keys - other.keys);
  const shortest = lists[0]?.keys ?? 0;
  if (options.isCount) return selectAmong(sql, options, lists);
  if (filter.by === "expiry")
    return shortest <= LONGEST_COUNTED ? selectAmong(sql, options, lists) : selectOfGroups(sql, options);
  const others = isOneGroup(filter) ? selectAmong(sql, options, lists) : selectOfGroups(sql, options);
  if (isLong(options)) return others;
  // The shortest list is short enough to look up every key of it. The groups would add no further key.
  if (shortest <= LOOKED_UP * limit) return selectAmong(sql, options, lists);
  return sql`
    with first_of_list as materialized (${selectAmong(sql, options, lists, LOOKED_UP * limit)})
    select key_id from first_of_list
     union
    select key_id from (${others}) as others
     where (select count(*) from first_of_list) < ${limit}::bigint`;
}

/** Selects those that meet the filter from the first `most` keys of the stored lists, or from all of them. */
function selectAmong(sql: Sql, options: ListOptions, lists: readonly StoredList[], most?: number): Fragment {
  const { filter } = options;
  const isByCreation = filter.by === undefined;
  const first = isByCreation ? inOrder(sql, { ...filter, limit: most }) : sql``;
  // As an array, so that one scan of the index finds all of them.
  const isAmong = (keys: Fragment) => sql`key_id = any(array(${keys}))`;
  const among = lists.reduce<Fragment | undefined>((before, { select }) => {
    const isNext =
      before !== undefined ? isAmong(before) : isByCreation ? isAfter(sql, sql`key_id`, filter) : sql`true`;
    return sql`select key_id from (${select(sql)}) as list where ${isNext} ${first}`;
  }, undefined);
  const list = among ?? sql`select key_id from listed_keys`;
  if (isOneGroup(filter)) return sql`select key_id from (${list}) as list ${inOrder(sql, filter)}`;
  // One after the other, because the page is usually full after a few of them.
  const isMet = sql`
    exists (select from listed_keys where listed_keys.key_id = list.key_id and ${meets(sql, options)} offset 0)`;
  if (most !== undefined)
    return sql`select key_id from (${list}) as list where ${isMet} ${inOrder(sql, filter)}`;
  const unlisted = { ...options, filter: { ...filter, stored: undefined } };
  return selectFirst(sql, unlisted, sql`and ${isAmong(list)}`);
}

/** Selects the months in which keys of the list expire. */
function selectMonthsOf(sql: Sql, options: ListOptions): Fragment {
  const { after, until } = expiriesOf(options);
  return selectMonths(sql, { table: sql`listed_keys`, month: sql`expiry_month`, from: after, until });
}

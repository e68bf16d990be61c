/**
 * Selects the keys of a page from `listed_keys`, which has everything that lists filter by.
 *
 * A page must not read a million rows because few keys meet its filter, and the planner does not know which
 * combinations are rare. So the page is merged from groups: an index returns the first keys of each expiry month, tier,
 * mode and state that the filter includes. The cost depends on the number of groups (some hundred) and not on the
 * number of keys. Only at the two ends of a range of expiries, keys are read that do not meet the filter.
 *
 * The stored lists of the room `statistics` (keys near their quota, unused keys) come without these groups. If the list
 * is short, and shorter than the groups, the page is read from it, and each of its keys is checked. Otherwise the groups
 * are merged as always, and each key is looked up in the list: of a long list, every large group has keys.
 */
import { type Fragment, type Sql, toTextArray } from "../database/mod.ts";
import { TIERS } from "../licensing/mod.ts";
import { directionOf, type KeyFilter, type ListedState } from "./key_filter.ts";

const MODES = ["live", "test"];
/** The states that are stored. */
const STATES = ["active", "suspended", "revoked"];

/** A longer list reads all keys, which then costs less than groups. */
const MAX_PAGE = 1_000;
const DAY_MS = 86_400_000;
/** A stored list of so many keys is short: checking all of them takes some 0.1 s. */
const SHORT_LIST = 50_000;

interface ListOptions {
  readonly filter: KeyFilter;
  readonly now: Date;
}

/** Returns the condition, as SQL, that an id is that of a key of the list. */
export function isListed(sql: Sql, id: Fragment, { filter, now }: ListOptions): Fragment {
  const { limit } = filter;
  if (limit === undefined || limit > MAX_PAGE) return sql`${id} in (${candidates(sql, { filter, now })})`;
  // As an array, so that the planner expects few keys and looks up each by its id.
  return sql`${id} = any(array(
    select key_id from (${candidates(sql, { filter, now })}) as candidate
     order by key_id ${directionOf(sql, filter)} limit ${limit}::bigint))`;
}

/** Selects at least the keys of the list: all keys that meet the filter, or the first ones of each part. */
function candidates(sql: Sql, options: ListOptions): Fragment {
  const { externalId, search, accountUuid, tier, state, mode, expiringWithinDays, limit } = options.filter;
  const first = sql`
    select key_id from listed_keys
     where ${meets(sql, options)}`;
  const inOrder = sql`order by key_id ${directionOf(sql, options.filter)} limit ${limit ?? null}::bigint`;
  const accountUuids = search?.accountUuids ?? (accountUuid === undefined ? undefined : [accountUuid]);
  if (accountUuids !== undefined) {
    return sql`
      select found.key_id
        from unnest(${toTextArray(accountUuids)}::uuid[]) as account (id)
             cross join lateral (${first} and account_id = account.id ${inOrder}) as found
       union
      ${first} and key_id = any(array(select id from keys where right(hint, 4) = ${search?.lastFour ?? null}::text))`;
  }
  const isOneGroup = [tier, state, mode, expiringWithinDays].every((each) => each === undefined);
  const list = externalId === undefined ? chooseList(sql, options.filter, isOneGroup) : undefined;
  if (list !== undefined) {
    const { unusedForDays, nearQuotaPercent } = options.filter.figures ?? {};
    const isAll = isOneGroup && (unusedForDays === undefined || nearQuotaPercent === undefined);
    return sql`
      select listed.key_id from ${list} as listed
       where ${isAfter(sql, sql`listed.key_id`, options.filter)}
         ${isAll ? sql`` : sql`and exists (${first} and listed_keys.key_id = listed.key_id offset 0)`}
       ${inOrder}`;
  }
  if (isOneGroup || externalId !== undefined || limit === undefined || limit > MAX_PAGE)
    return sql`${first} ${inOrder}`;
  return sql`
    select page.key_id
      from (${selectMonths(sql, options)}) as month
           cross join unnest(${toTextArray(tier ? [tier] : TIERS)}::text[]) as each (tier)
           cross join unnest(${toTextArray(mode ? [mode] : MODES)}::text[]) as either (mode)
           cross join unnest(${toTextArray(state ? [stored(state)] : STATES)}::text[]) as one (state)
           cross join lateral (
             ${first} and expiry_month = month.first_day and tier = each.tier and mode = either.mode
               and state = one.state
             ${inOrder}) as page`;
}

/** Returns the stored list from which the page is read: if it is short and has fewer keys than the groups, or alone. */
function chooseList(sql: Sql, { figures }: KeyFilter, isOneGroup: boolean): Fragment | undefined {
  if (figures === undefined) return undefined;
  const { nearQuotaPercent, unusedForDays, listKeys, groupKeys } = figures;
  if (!isOneGroup && listKeys > Math.min(SHORT_LIST, groupKeys)) return undefined;
  return nearQuotaPercent === undefined
    ? sql`(select key_id from figure_unused where days >= ${unusedForDays ?? 0}::smallint)`
    : sql`(select key_id from figure_near_quota where percent >= ${nearQuotaPercent}::integer)`;
}

/** Returns the condition that a row of `listed_keys` is on the stored lists: with `offset 0`, each row is looked up. */
function isStored(sql: Sql, { figures }: KeyFilter): Fragment {
  const { nearQuotaPercent, unusedForDays } = figures ?? {};
  const none = sql``;
  return sql`
       ${
         nearQuotaPercent === undefined
           ? none
           : sql`and exists (select from figure_near_quota as f
                              where f.key_id = listed_keys.key_id and percent >= ${nearQuotaPercent}::integer offset 0)`
       }
       ${
         unusedForDays === undefined
           ? none
           : sql`and exists (select from figure_unused as f
                              where f.key_id = listed_keys.key_id and days >= ${unusedForDays}::smallint offset 0)`
       }`;
}

function isAfter(sql: Sql, id: Fragment, { afterUuid, newestFirst }: KeyFilter): Fragment {
  return afterUuid === undefined ? sql`true` : sql`${id} ${newestFirst ? sql`<` : sql`>`} ${afterUuid}::uuid`;
}

/** Returns the condition that a row of `listed_keys` meets the filter, without the search. */
function meets(sql: Sql, { filter, now }: ListOptions): Fragment {
  const { accountUuid, externalId, tier, state, mode } = filter;
  const { after, until } = expiriesOf({ filter, now });
  const none = sql``;
  return sql`true
       ${accountUuid === undefined ? none : sql`and account_id = ${accountUuid}::uuid`}
       ${externalId === undefined ? none : sql`and key_id = any(array(${selectKeysOf(sql, externalId)}))`}
       ${tier === undefined ? none : sql`and tier = ${tier}`}
       ${state === undefined ? none : sql`and state = ${stored(state)}`}
       ${mode === undefined ? none : sql`and mode = ${mode}`}
       ${after === undefined ? none : sql`and expires_at > ${after}::timestamptz`}
       ${until === undefined ? none : sql`and expires_at <= ${until}::timestamptz`}
       and ${isAfter(sql, sql`listed_keys.key_id`, filter)}
       ${isStored(sql, filter)}`;
}

function selectKeysOf(sql: Sql, externalId: string): Fragment {
  return sql`
    select k.id from licenses l join keys k on k.license_id = l.id where l.external_id = ${externalId}::text`;
}

function stored(state: ListedState): string {
  return state === "expired" ? "active" : state;
}

/** Returns the range of expiries that the filter includes: after the first instant, up to the second one. */
function expiriesOf({ filter: { state, expiringWithinDays }, now }: ListOptions): {
  readonly after?: Date;
  readonly until?: Date;
} {
  const isUnexpired = state === "active" || expiringWithinDays !== undefined;
  const withinMs = (expiringWithinDays ?? 0) * DAY_MS;
  const isBounded = state === "expired" || expiringWithinDays !== undefined;
  return {
    ...(isUnexpired && { after: now }),
    ...(isBounded && { until: state === "expired" ? now : new Date(now.getTime() + withinMs) }),
  };
}

/** Selects the months in which keys of the list expire: each step looks up the next month in the index. */
function selectMonths(sql: Sql, options: ListOptions): Fragment {
  const { after, until } = expiriesOf(options);
  const monthOf = (at: Date) => sql`date_trunc('month', ${at}::timestamptz at time zone 'UTC')::date`;
  const next = (condition: Fragment) =>
    sql`(select expiry_month from listed_keys where ${condition} order by expiry_month limit 1)`;
  return sql`
    with recursive month (first_day) as (
      ${next(after ? sql`expiry_month >= ${monthOf(after)}` : sql`true`)}
       union all
      select ${next(sql`expiry_month > month.first_day`)} from month where first_day is not null
    )
    select first_day from month where ${until ? sql`first_day <= ${monthOf(until)}` : sql`first_day is not null`}`;
}

/**
 * Selects the keys of a page from `listed_keys`, which has everything that lists filter by.
 *
 * A page must not read a million rows because few keys meet its filter, and the planner does not know which
 * combinations are rare. So the page is merged from groups: an index returns the first keys of each expiry month, tier,
 * mode and state that the filter includes. The cost depends on the number of groups (some hundred) and not on the
 * number of keys. Only at the two ends of a range of expiries, keys are read that do not meet the filter.
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

/** Returns the condition that a row of `listed_keys` meets the filter, without the search. */
function meets(sql: Sql, { filter, now }: ListOptions): Fragment {
  const { accountUuid, externalId, tier, state, mode, afterUuid, newestFirst } = filter;
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
       ${afterUuid === undefined ? none : sql`and key_id ${newestFirst ? sql`<` : sql`>`} ${afterUuid}::uuid`}`;
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

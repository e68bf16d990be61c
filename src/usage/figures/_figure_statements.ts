/**
 * The statements that compute the stored figures. Each is one statement with one snapshot, so each figure is exact for
 * one instant, and a reader sees either all of the old rows or all of the new ones.
 *
 * The lists of keys can have a row for every key. A statement writes only the rows that differ from the stored
 * ones, because rewriting all of them would write some hundred megabytes each time.
 */
import { DAY_MS, monthOf, toMonthText } from "../../base/calendar.ts";
import { type Fragment, type PendingRows, type Sql, toTextArray } from "../../database/mod.ts";
import { isTaken } from "../../licensing/machines/mod.ts";
import { effectiveLimit, listedState, TIERS } from "../../licensing/mod.ts";
import { EXPIRING_DAYS, type FigureName, NEAR_QUOTA_PERCENT, UNUSED_DAYS } from "./figures.ts";

/** The most rows that a figure lists. */
const LISTED = 100;
/** The most keys of a stored order. */
export const MOST_SORTED = 10_000;

type Statement = (sql: Sql, now: Date) => PendingRows;

export const STATEMENTS: Readonly<Record<FigureName, Statement>> = {
  keys: countKeys,
  consumers: findConsumers,
  most_used: findMostUsed,
  latest_used: findLatestUsed,
  near_quota: findNearQuota,
  runs_out: findRunningOut,
  expiring: findExpiring,
  unused: findUnused,
  machines: countMachines,
};

function countKeys(sql: Sql, now: Date): PendingRows {
  return sql`
    with counted as (
      select tier, ${listedState(sql, { state: sql`state`, endsAt: sql`expires_at`, now })} as state, count(*)
        from listed_keys group by 1, 2 order by 1, 2
    )
    ${storeFigure(sql, "keys", { now, value: sql`jsonb_build_object('rows', ${rowsOf(sql, "counted")})` })}`;
}

function findConsumers(sql: Sql, now: Date): PendingRows {
  const month = monthOf(now.getTime());
  return sql`
    with largest as (
      select l.account_id as account, count(*) as licenses, sum(u.used)::bigint as used
        from usage u join licenses l on l.id = u.license_id
       where u.month = ${month.firstDay}::date and u.used > 0
       group by 1
       order by used desc, account
       limit ${LISTED}
    )
    ${storeFigure(sql, "consumers", { now, value: sql`jsonb_build_object('month', ${toMonthText(month)}::text, 'rows', ${rowsOf(sql, "largest")})` })}`;
}

function findMostUsed(sql: Sql, now: Date): PendingRows {
  // Each license has a key, so the keys of as many licenses are enough.
  return sql`
    with most as materialized (
      select license_id, used from usage
       where month = ${monthOf(now.getTime()).firstDay}::date and used > 0
       order by used desc, license_id desc limit ${MOST_SORTED}
    ),
    found as materialized (
      select id as key_id, used from most join keys using (license_id)
       order by used desc, id desc limit ${MOST_SORTED}
    ),
    ${replaced(sql, "figure_most_used", "used")}
    ${storeOrder(sql, "most_used", now)}`;
}

function findLatestUsed(sql: Sql, now: Date): PendingRows {
  return sql`
    with found as materialized (
      select id as key_id, last_used_at from keys where last_used_at is not null
       order by last_used_at desc, id desc limit ${MOST_SORTED}
    ),
    ${replaced(sql, "figure_latest_used", "last_used_at")}
    ${storeOrder(sql, "latest_used", now)}`;
}

function storeOrder(sql: Sql, name: FigureName, now: Date): Fragment {
  const value = sql`jsonb_build_object('keys', (select count(*) from found), 'rows', '[]'::jsonb)`;
  return storeFigure(sql, name, { now, value });
}

/** Selects the use of this month of each license that can be near its limit. A limit of 0 is used up without any use. */
function useOfMonth(sql: Sql, now: Date): Fragment {
  return sql`
    select l.id as license, l.account_id as account, l.tier, ${effectiveLimit(sql)} as "limit",
           coalesce(u.used, 0) as used, l.expires_at
      from licenses l
      left join usage u on u.license_id = l.id and u.month = ${monthOf(now.getTime()).firstDay}::date
     where u.license_id is not null or l.monthly_limit = 0`;
}

function findNearQuota(sql: Sql, now: Date): PendingRows {
  // The comparison is the same as in the list of keys.
  return sql`
    with near as materialized (
      select license, account, tier, "limit", used,
             case when "limit" = 0 then 100 else least(floor(used * 100.0 / "limit"), 999)::integer end as percent
        from (${useOfMonth(sql, now)}) as limited
       where used * 100.0 >= "limit" * ${NEAR_QUOTA_PERCENT}::bigint
    ),
    found as materialized (
      select k.id as key_id, near.percent from near join keys k on k.license_id = near.license
    ),
    ${replaced(sql, "figure_near_quota", "percent")},
    first as (
      select * from near order by ${highestTier(sql)}, percent desc, license limit ${LISTED}
    )
    ${storeFigure(sql, "near_quota", {
      now,
      value: sql`
        jsonb_build_object('keys', (select count(*) from found), 'licenses', (select count(*) from near),
          'rows', ${rowsOf(sql, "first")})`,
    })}`;
}

/** Returns the condition that the row with the column `license` has a key `k` for which the condition holds. */
function hasKey(sql: Sql, condition: Fragment): Fragment {
  return sql`exists (select from keys k where k.license_id = license and ${condition})`;
}

/** Enterprise comes first. */
function highestTier(sql: Sql): Fragment {
  return sql`array_position(${toTextArray(TIERS.toReversed())}::text[], tier)`;
}

/** The rate is the mean of this many days that are over, in UTC: so it stays the same until the day ends. */
const DAYS_OF_RATE = 7;

function findRunningOut(sql: Sql, now: Date): PendingRows {
  const month = monthOf(now.getTime());
  const days = Array.from({ length: DAYS_OF_RATE }, (_, index) => daysFrom(now, index - DAYS_OF_RATE));
  const first = daysFrom(now, -DAYS_OF_RATE);
  const firstMonth = monthOf(first.getTime());
  const usedOn = (day: Date) => {
    const byDay = monthOf(day.getTime()).index === month.index ? sql`u.by_day` : sql`past.by_day`;
    return sql`coalesce(${byDay}[${day.getUTCDate()}::integer], 0)`;
  };
  return sql`
    with used as materialized (
      select license_id, coalesce(u.used, 0) as used,
             (${days.map(usedOn).reduce((sum, one) => sql`${sum} + ${one}`)})::numeric as recent
        from (select license_id, used, by_day from usage where month = ${month.firstDay}::date) as u
        full join (select license_id, by_day from usage
                    where month = ${firstMonth.firstDay}::date and month < ${month.firstDay}::date) as past
             using (license_id)
    ),
    lasting_less as materialized (
      select license, account, tier, "limit", used, round(recent / ${DAYS_OF_RATE}::integer)::bigint as "usedADay",
             ((${now}::timestamptz + ("limit" - used) / recent * make_interval(hours => ${DAYS_OF_RATE * 24}::integer))
               at time zone 'UTC')::date as day
        from (select l.id as license, l.account_id as account, l.tier, ${effectiveLimit(sql)} as "limit", used.*
                from used join licenses l on l.id = used.license_id
               where recent > 0 and l.expires_at > ${now}::timestamptz) as limited
       where used < "limit"
         and ("limit" - used) * ${DAYS_OF_RATE * DAY_MS}::numeric < recent * ${month.endsAtMs - now.getTime()}::numeric
    ),
    -- Used on the first of the seven days or before. With \`offset 0\` the use of these few licenses is looked up.
    running_out as materialized (
      select * from lasting_less
       where exists (
         select from usage u
          where u.license_id = license and u.used > 0 and u.month <= ${firstMonth.firstDay}::date
            and (u.month < ${firstMonth.firstDay}::date or 0 < any(u.by_day[:${first.getUTCDate()}::integer]))
         offset 0)
    ),
    -- In the list of keys they have no finite day.
    used_up as (
      select license from (${useOfMonth(sql, now)}) as limited
       where used >= "limit" and expires_at > ${now}::timestamptz
    ),
    found as materialized (
      select k.id as key_id, license, day
        from (select license, day from running_out union all select license, '-infinity'::date from used_up) as ending
             join keys k on k.license_id = license and k.state <> 'revoked'
    ),
    ${replaced(sql, "figure_runs_out", "day")},
    living as materialized (select * from running_out where license in (select license from found)),
    first as (
      select * from living
       order by ${highestTier(sql)}, day, license limit ${LISTED}
    )
    ${storeFigure(sql, "runs_out", { now, value: sql`jsonb_build_object('keys', (select count(*) from found), 'licenses', (select count(*) from living), 'rows', ${rowsOf(sql, "first")})` })}`;
}

function findExpiring(sql: Sql, now: Date): PendingRows {
  return sql`
    with expiring as materialized (
      select * from (select id as license, account_id as account, tier, expires_at as "expiresAt" from licenses) as ending
       where "expiresAt" > ${now}::timestamptz and "expiresAt" <= ${daysFrom(now, EXPIRING_DAYS)}::timestamptz
         and ${hasKey(sql, sql`k.state = 'active' and coalesce(k.own_expires_at > ${now}::timestamptz, true)`)}
    ),
    first as (select * from expiring order by "expiresAt", license limit ${LISTED})
    ${storeFigure(sql, "expiring", { now, value: sql`jsonb_build_object('licenses', (select count(*) from expiring), 'rows', ${rowsOf(sql, "first")})` })}`;
}

function findUnused(sql: Sql, now: Date): PendingRows {
  const before = (days: number) => sql`${daysFrom(now, -days)}::timestamptz`;
  const [least, ...longer] = UNUSED_DAYS;
  const cases = longer
    .toReversed()
    .map((days) => sql`when seen_at <= ${before(days)} then ${days}::smallint`);
  return sql`
    with found as materialized (
      select key_id, case ${cases} else ${least}::smallint end as days
        from (select id as key_id, greatest(last_used_at, created_at) as seen_at from keys) as seen
       where seen_at <= ${before(least)}
    ),
    ${replaced(sql, "figure_unused", "days")},
    by_longest as (select days, count(*) as keys from found group by 1),
    counted as (
      select at_least.days, coalesce(sum(keys), 0)::bigint as count
        from unnest(${`{${UNUSED_DAYS}}`}::integer[]) as at_least (days)
        left join by_longest on by_longest.days >= at_least.days
       group by 1 order by 1
    )
    ${storeFigure(sql, "unused", { now, value: sql`jsonb_build_object('rows', ${rowsOf(sql, "counted")})` })}`;
}

/** Counts the places that are taken now by the clock of the database, which is the clock of the places. */
function countMachines(sql: Sql, now: Date): PendingRows {
  return sql`
    with taken as materialized (
      select l.id as license, l.account_id as account, l.tier, l.max_machines as "limit", count(m.id) as used
        from licenses l
        left join machines m on m.license_id = l.id and ${isTaken(sql)}
       where l.max_machines is not null
       group by l.id
    ),
    counted as materialized (
      select *, used >= "limit" and ${hasKey(sql, sql`k.state <> 'revoked'`)} as is_full from taken
    ),
    tiers as (
      select tier, count(*) as licenses, sum("limit") as places, sum(used) as taken,
             count(*) filter (where is_full) as "full"
        from counted group by tier order by tier
    ),
    found as materialized (
      select k.id as key_id, "limit" as places
        from counted join keys k on k.license_id = license and k.state <> 'revoked'
       where is_full
    ),
    ${replaced(sql, "figure_full", "places")},
    first as (select license, account, tier, "limit", used from counted where is_full order by license limit ${LISTED})
    ${storeFigure(sql, "machines", { now, value: sql`jsonb_build_object('keys', (select count(*) from found), 'tiers', ${rowsOf(sql, "tiers")}, 'rows', ${rowsOf(sql, "first")})` })}`;
}

/**
 * Returns the CTEs after which a table has exactly the rows of `found (key_id, …)`. No row is both deleted and
 * inserted.
 */
function replaced(sql: Sql, table: string, column: string): Fragment {
  const value = sql(column);
  return sql`
    differing as materialized (
      select found.key_id, found.${value}, stored.key_id as gone_id, stored.${value} as gone_value
        from found full join ${sql(table)} as stored
          on stored.key_id = found.key_id and stored.${value} = found.${value}
       where found.key_id is null or stored.key_id is null
    ),
    gone as (
      delete from ${sql(table)} as stored using differing
       where stored.key_id = differing.gone_id and stored.${value} = differing.gone_value
    ),
    added as (
      insert into ${sql(table)} (key_id, ${value})
      select key_id, ${value} from differing where key_id is not null
    )`;
}

/** Returns the end of a statement, which stores a figure in the place of the last one. */
function storeFigure(
  sql: Sql,
  name: FigureName,
  { now, value }: { readonly now: Date; readonly value: Fragment },
): Fragment {
  return sql`
    insert into figures (name, as_of, value) values (${name}, ${now}::timestamptz, ${value})
    on conflict (name) do update set as_of = excluded.as_of, value = excluded.value`;
}

function rowsOf(sql: Sql, relation: string): Fragment {
  return sql`coalesce((select jsonb_agg(to_jsonb(each)) from ${sql(relation)} as each), '[]')`;
}

function daysFrom(now: Date, days: number): Date {
  return new Date(now.getTime() + days * DAY_MS);
}

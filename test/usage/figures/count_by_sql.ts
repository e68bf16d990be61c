/**
 * Counts of the numbers on the pages, made with SQL over the base tables alone. `proof.tiers` has the tiers at the end
 * of days.
 */
import type { Database } from "../../../src/database/mod.ts";

export type SqlCounts = ReturnType<typeof countBySql>;

export interface UseOfDay {
  readonly day: string;
  readonly tier: string;
  readonly mode: string;
  readonly used: number;
}

interface LicenseRow {
  readonly license_id: string;
  readonly user_id: string;
  readonly email: string;
  readonly organization: string;
  readonly tier: string;
}

const MODE = `(select string_agg(distinct mode, '+' order by mode) from keys where license_id = l.id)`;
const LIMIT = `coalesce(l.monthly_limit,
  (array[10000, 50000, 500000])[array_position('{free,research,commercial}'::text[], l.tier::text)])`;
const DAY = `(received_at at time zone 'UTC')::date`;
const INFERENCES = `select license_id, ${DAY} as day, count(*) as used from events where event_type = 'inference' group by 1, 2`;
const LICENSE = `'lic_' || replace(l.id::text, '-', '')`;
const TODAY = (at: Date) => `'${at.toISOString().slice(0, 10)}'::date`;
const USER = `'usr_' || replace(a.id::text, '-', '')`;
/** The columns of a {@linkcode LicenseRow}, of the license `l` and its account `a`. */
const LICENSE_ROW = `${LICENSE} as license_id, ${USER} as user_id, email, organization, tier`;
const HIGHEST_TIER = `array_position('{enterprise,commercial,research,free}'::text[], tier::text)`;

export function countBySql(database: Database) {
  const query = async <Row extends object>(text: string): Promise<Row[]> => [
    ...(await database.query<Row>((sql) => sql.unsafe(text))),
  ];
  const quoted = (at: Date) => `'${at.toISOString()}'::timestamptz`;
  const usedIn = (at: Date) =>
    `(select coalesce(sum(used), 0) from usage where license_id = l.id and month = date_trunc('month', ${quoted(at)} at time zone 'UTC')::date)`;

  return {
    query,

    /** The use by the events, under the tier at the end of the day; for today, under the present tier. */
    useByDay: () =>
      query<UseOfDay>(`
        select to_char(e.day, 'YYYY-MM-DD') as day, coalesce(t.tier, l.tier) as tier, ${MODE} as mode, sum(used)::bigint as used
          from (${INFERENCES}) as e join licenses l on l.id = license_id
               left join proof.tiers t on t.day = e.day and t.license_id = l.id
         group by 1, 2, 3 order by 1, 2, 3`),

    /** The use without events, by month. */
    importedByMonth: () =>
      query<Omit<UseOfDay, "day"> & { month: string }>(`
        select to_char(u.month, 'YYYY-MM') as month, l.tier, ${MODE} as mode, sum(u.used - coalesce(e.used, 0))::bigint as used
          from usage u join licenses l on l.id = u.license_id
               left join (select license_id, date_trunc('month', day) as month, sum(used) as used
                            from (${INFERENCES}) as e group by 1, 2) as e
                 on e.license_id = u.license_id and e.month = u.month
         where u.used > coalesce(e.used, 0)
         group by 1, 2, 3 order by 1, 2, 3`),

    /** The rows of `usage export`. */
    licensesOf: (month: string) =>
      query<{
        license: string;
        email: string;
        organization: string;
        tier: string;
        mode: string;
        limit: number | null;
        used: number;
      }>(`
        select ${LICENSE} as license, email, organization, tier, ${MODE} as mode, ${LIMIT} as limit, used
          from usage u join licenses l on l.id = license_id join accounts a on a.id = account_id
         where month = '${month}-01' order by l.id`),

    keys: (asOf: Date) =>
      query<{ tier: string; state: string; count: number }>(`
        select tier, case when k.state <> 'active' then k.state
                          when l.expires_at <= ${quoted(asOf)} or k.own_expires_at <= ${quoted(asOf)} then 'expired'
                          else 'active' end as state, count(*)
          from keys k join licenses l on l.id = license_id group by 1, 2 order by tier collate "C", 2`),

    consumers: (asOf: Date) =>
      query<{ user_id: string; email: string; organization: string; licenses: number; used: number }>(`
        select ${USER} as user_id, email, organization, count(*) filter (where used > 0) as licenses, sum(used)::bigint as used
          from accounts a join lateral (select ${usedIn(asOf)} as used from licenses l where account_id = a.id) as u on true
         group by a.id having sum(used) > 0 order by sum(used) desc, a.id limit 100`),

    nearQuota: (asOf: Date) =>
      query<LicenseRow & { monthly_limit: number; used: number; percent: number }>(`
        select ${LICENSE_ROW}, ${LIMIT} as monthly_limit,
               ${usedIn(asOf)}::bigint as used, floor(${usedIn(asOf)} * 100 / ${LIMIT})::bigint as percent
          from licenses l join accounts a on a.id = account_id
         where ${usedIn(asOf)} * 5 >= ${LIMIT} * 4
         order by ${HIGHEST_TIER}, percent desc, l.id`),

    /** The forecast by the events of the last seven days that are over. */
    runsOut: (asOf: Date) =>
      query<LicenseRow & { monthly_limit: number; used: number; used_a_day: number; day: string }>(`
        with week as (
          select license_id, sum(used) as units from (${INFERENCES}) as e
           where day between ${TODAY(asOf)} - 7 and ${TODAY(asOf)} - 1 group by 1
        ),
        forecast as (
          select l.*, ${LIMIT} as limit_of_month, ${usedIn(asOf)} as used, units,
                 (${quoted(asOf)} + (${LIMIT} - ${usedIn(asOf)}) * 7.0 / units * interval '24 hours') at time zone 'UTC' as until
            from licenses l join week on license_id = l.id
        )
        select ${LICENSE_ROW}, limit_of_month as monthly_limit,
               used::bigint, round(units / 7.0)::bigint as used_a_day, to_char(until, 'YYYY-MM-DD') as day
          from forecast l join accounts a on a.id = account_id
         where used < limit_of_month and expires_at > ${quoted(asOf)}
           and until < date_trunc('month', ${quoted(asOf)} at time zone 'UTC') + interval '1 month'
           and exists (select from keys where license_id = l.id and revoked_at is null)
           and (exists (select from (${INFERENCES}) as e where license_id = l.id and e.day <= ${TODAY(asOf)} - 7)
                or exists (select from usage where license_id = l.id and used > 0 and month < date_trunc('month', ${TODAY(asOf)} - 7)))
         order by ${HIGHEST_TIER}, until::date, l.id`),

    expiring: (asOf: Date) =>
      query<LicenseRow & { expires_at: string }>(`
        select ${LICENSE_ROW},
               to_char(expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as expires_at
          from licenses l join accounts a on a.id = account_id
         where expires_at > ${quoted(asOf)} and expires_at <= ${quoted(asOf)} + interval '90 days'
           and exists (select from keys where license_id = l.id and state = 'active'
                          and coalesce(own_expires_at, 'infinity') > ${quoted(asOf)})
         order by l.expires_at, l.id`),

    unused: (asOf: Date) =>
      query<{ days: number; keys: number }>(`
        select days, count(k.id) as keys from unnest('{30,90,180,365}'::integer[]) as days
               left join keys k on coalesce(last_used_at, created_at) <= ${quoted(asOf)} - interval '1 day' * days
         group by 1 order by 1`),

    /** Must be empty: days whose use in `usage` differs from the events. */
    wrongDays: () =>
      query<object>(`
        select coalesce(u.license_id, e.license_id) as license, coalesce(u.day, e.day) as day, u.used as usage, e.used as events
          from (select license_id, (month + (place - 1)::integer) as day, units as used
                  from usage, unnest(by_day) with ordinality as u (units, place) where units <> 0) as u
               full join (${INFERENCES}) as e on e.license_id = u.license_id and e.day = u.day
         where u.used is distinct from e.used`),

    /** Changes if a row changes that a stored figure counts. */
    fingerprint: async () =>
      JSON.stringify(
        await query(`
          select (select count(*) from events) as events, (select sum(used) from usage) as used,
                 (select md5(string_agg(k::text, '' order by id)) from keys k) as keys`),
      ),
  };
}

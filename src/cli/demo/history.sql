-- The history of a demo in ninety days: what its customers changed, used and were refused, and how long the answers of the last day
-- took. Each number depends only on
-- the customer and the time, so a day is the same on every machine.
--
-- In the ordinary product only the room that owns a table writes it. This statement is the exception: no room can write
-- the past. It runs on a database without keys, and a test compares its rows in the audit log with those of the rooms.
with given as (
  select *, date_trunc('day', now, 'UTC') as today, date_trunc('month', now at time zone 'UTC')::date as this_month,
         interval '24 hours' as one_day, interval '9 hours' as morning
    from jsonb_to_record($1::text::jsonb)
         as given (now timestamptz, actor text, limits jsonb, customers jsonb, changes jsonb, refusals jsonb, process_id uuid,
                   version text)
),
moment as (
  select days_ago, case days_ago when 0 then now else today - days_ago * one_day + morning end as at
    from given cross join generate_series(0, 92) as days_ago
),
customer as (
  select customer.*, begin.at as since_at, case when per_day > 0 then latest.at end as last_used_at, expires_at, seat_minutes,
         jsonb_build_object('monthly_limit', null, 'expires_at', expires_at)
           || jsonb_strip_nulls(jsonb_build_object('max_machines', seats, 'seat_minutes', seat_minutes)) as terms
    from given
         cross join jsonb_to_recordset(customers) as customer (
           email text, organization text, first_tier text, tier text, since integer, until integer,
           per_day numeric, weekend numeric, expires_in integer, quota_part numeric, seats integer, taken integer,
           account_id uuid, license_id uuid, key_id uuid, hash text, hint text, next_key_id uuid, next_hash text, next_hint text)
         cross join lateral (
           select today + expires_in * one_day + morning as expires_at,
                  case when seats is not null then 1440 end as seat_minutes) as derived
         join moment as begin on begin.days_ago = since
         join moment as latest on latest.days_ago = until
),
change as (
  select customer.*, at, at + 7 * one_day as week_later, action, old_state, new_state, coalesce(by, actor) as actor
    from given
         cross join jsonb_to_recordset(changes)
                    as change (email text, days_ago integer, action text, old_state text, new_state text, by text)
         join moment using (days_ago)
         join customer using (email)
),
outcome as (
  select email, max(at) filter (where action = 'license.tier') as promoted_at,
         max(at) filter (where action = 'key.rotate') as rotated_at,
         max(week_later) filter (where action = 'key.rotate') as ends_at,
         max(at) filter (where action = 'key.revoke') as revoked_at,
         (array_agg(new_state order by at desc) filter (where new_state is not null))[1] as state
    from change group by email
),

-- The hours that are over, each with its percentage of a day's use.
hour as (
  select days_ago, (at at time zone 'UTC')::date as date, nth - 1 as of_day, at, percent
    from given
         cross join generate_series(0, 89) as days_ago
         cross join unnest('{1,1,1,1,1,2,3,5,7,8,9,8,7,8,9,8,6,4,3,2,2,2,1,1}'::integer[])
                    with ordinality as share (percent, nth)
         cross join lateral (select today - days_ago * one_day + (nth - 1) * interval '1 hour' as at) as began
   where at + interval '1 hour' <= now
),
-- The use of each day has the rhythm of a week, grows from 55 percent, and stays below one 31st of the month's quota.
use as (
  select email, license_id, tier_then, days_ago, date, part, date_trunc('month', date)::date as month,
         floor(part * least((limits ->> tier_then)::numeric / 31,
           per_day * case when extract(isodow from date) > 5 then weekend else 1 end * (1 - 0.45 * days_ago / 90)
             * (0.82 + 0.36 * get_byte(sha256(convert_to(concat(email, extract(epoch from at)), 'UTF8')), 0) / 256)))
           as used
    from given
         cross join customer
         left join outcome using (email)
         join (select days_ago, date, min(at) as at, sum(percent) / 100.0 as part from hour group by days_ago, date)
              as day on days_ago between until and since - 1
         cross join lateral (
           select case when at + morning < promoted_at then first_tier else tier end as tier_then) as term
),

account as (
  insert into accounts (id, email, name, organization, created_at)
  select account_id, email, email, organization, since_at from customer
),
license as (
  insert into licenses (id, account_id, tier, expires_at, created_at, max_machines, seat_minutes)
  select license_id, account_id, tier, expires_at, since_at, seats, seat_minutes from customer
),
-- Nobody knows the fingerprints. Without a heartbeat the seats end after a day.
machine as (
  insert into machines (id, account_id, license_id, fingerprint, name, platform, activated_at, last_seen_at, active_until)
  select gen_random_uuid(), account_id, license_id, sha256(uuid_send(gen_random_uuid())), 'workstation-' || n, 'linux', now, now,
         now + one_day
    from given cross join customer cross join generate_series(1, taken) as n
),
key as (
  insert into keys (id, license_id, hash, hint, mode, state, own_expires_at, replaced_by, created_at, revoked_at,
                    last_used_at)
  select made.id, license_id, decode(made.hash, 'hex'), made.hint, 'test', made.state, works_until, replaced_by, at,
         made.revoked_at, used_at
    from customer
         left join outcome using (email)
         cross join lateral (
           -- A rotated key works for seven more days.
           select key_id, hash, hint, coalesce(state, 'active'), ends_at,
                  case when rotated_at is not null then next_key_id end, since_at, revoked_at,
                  coalesce(rotated_at, last_used_at)
           union all
           select next_key_id, next_hash, next_hint, 'active', null, null, rotated_at, null, last_used_at
            where rotated_at is not null
         ) as made (id, hash, hint, state, works_until, replaced_by, at, revoked_at, used_at)
),
entry (at, actor, account_id, license_id, action, key_id, before, after) as (
  select since_at, actor, account_id, license_id, 'key.import', key_id, null::jsonb,
         terms || jsonb_build_object('tier', first_tier, 'mode', 'test', 'used',
           case since when 0 then round(coalesce(quota_part * (limits ->> tier)::numeric, 0)) else 0 end)
    from given cross join customer
  union all
  select at, actor, account_id, license_id, made.*
    from change
         cross join lateral (
           select action, key_id, jsonb_build_object('state', old_state), jsonb_build_object('state', new_state)
            where new_state is not null
           union all
           select action, key_id, terms || jsonb_build_object('tier', first_tier),
                  terms || jsonb_build_object('tier', tier)
            where action = 'license.tier'
           union all
           select action, key_id, null, jsonb_build_object('own_expires_at', week_later,
                    'replaced_by', 'key_' || replace(next_key_id::text, '-', ''))
            where action = 'key.rotate'
           union all
           select 'key.issue', next_key_id, null, terms || jsonb_build_object('tier', tier, 'mode', 'test',
                    'rotated_from', 'key_' || replace(key_id::text, '-', ''))
            where action = 'key.rotate'
         ) as made
),
logged as (
  insert into audit (at, actor, account_id, license_id, action, key_id, before, after, reason, door)
  select entry.*, 'demo',
         case split_part(actor, ':', 1) when 'token' then 'api' when 'operator' then 'console' else 'command' end
    from entry order by at, action, key_id
),

-- The part of this month's quota that the days do not explain has no day, as if it was imported.
part_of_month (license_id, month, nth, used) as (
  select license_id, month, extract(day from date)::integer, used from use
  union all
  select license_id, this_month, null, greatest(0, round(quota_part * (limits ->> tier)::numeric)
           - coalesce((select sum(used) from use where (use.email, month) = (customer.email, this_month)), 0))
    from given cross join customer where quota_part is not null
),
counted as (
  insert into usage (license_id, month, used, by_day)
  select license_id, month, sum(used),
         array(select coalesce(sum(part.used), 0)
                 from generate_series(1, 31) as day
                      left join part_of_month as part
                             on (part.license_id, part.month, nth) = (every.license_id, every.month, day)
                group by day order by day)
    from part_of_month as every group by license_id, month having sum(used) > 0
),
-- Today's use is counted from events, and a demo has none. The other days are counted from the use of the months.
today as (
  insert into usage_days (day, is_imported, tier, mode, used)
  select date, false, tier_then, 'test', sum(used) from use where days_ago = 0 group by 1, 3 having sum(used) > 0
),
restarted as (delete from usage_days_progress),

refused as (
  select email, endpoint, code, coalesce(reason, '') as reason, at,
         round(per_hour * (0.4 + 0.6 / 256
           * get_byte(sha256(convert_to(concat(email, code, extract(epoch from at)), 'UTF8')), 0))) as count
    from given
         cross join jsonb_to_recordset(refusals) as refusal (
           email text, endpoint text, code text, reason text, first_day integer, last_day integer, first_hour integer,
           last_hour integer, per_hour numeric)
         join hour on days_ago between last_day and first_day and of_day between first_hour and last_hour
),
-- The last minutes of a customer whose client does not wait.
hurried (email, requests, refused) as (values ('ternwick@demo.example', 240, 173)),
explained as (
  insert into refusals (key_id, code, reason, last_at, count)
  select key_id, code, reason, max(at), sum(count)
    from (select email, code, case code when 'RATE_LIMIT_EXCEEDED' then endpoint else reason end, at, count
            from refused where count > 0
          union all
          select email, 'RATE_LIMIT_EXCEEDED', 'analytics', now, refused from given cross join hurried
         ) as noted (email, code, reason, at, count)
         join customer using (email) group by key_id, code, reason
),
counted_now as (
  insert into too_many_requests (key_id, began_at, requests, refused)
  select key_id, date_bin('10 minutes', now, 'epoch'), requests, refused
    from given cross join hurried join customer using (email)
  union all
  select key_id, at, count, count from given cross join refused join customer using (email)
   where code = 'RATE_LIMIT_EXCEEDED' and count > 0 and at > now - interval '25 hours' and at < now - interval '1 hour'
),
hours as (
  insert into activity_hours (hour, endpoint, code, reason, count)
  select at, endpoint, code, 'demo', sum(count)
    from (select at, endpoint, code, count from refused
          union all
          select date_trunc('hour', now, 'UTC'), 'analytics', 'RATE_LIMIT_EXCEEDED', refused
            from given cross join hurried
          union all
          select at, endpoint, 'OK', round(used / part * percent / 100 / each)
            from (select days_ago, part, sum(used) as used from use group by days_ago, part) as total
                 join hour using (days_ago)
                 cross join (values ('analytics', 1), ('validate', 40), ('refresh', 60), ('models', 1500))
                            as kind (endpoint, each)) as answer
   group by at, endpoint, code having sum(count) > 0
  returning *
),

-- The five minutes of a day and an hour. A process began an hour ago, and events are slow since then. Those of the present
-- hour are like those of the hour before, and the ones that are not over have only the customer that does not wait.
five_minutes as (
  select at, ago, ago <= 12 as is_slow, least(date_trunc('hour', at, 'UTC'), last_hour) as hour,
         date_trunc('hour', at, 'UTC') > last_hour as is_present, extract(minute from at)::integer / 5 as of_hour
    from given
         cross join lateral (select date_trunc('hour', now, 'UTC') - interval '1 hour' as last_hour) as over
         cross join generate_series(0, 300) as ago
         cross join lateral (select date_bin('5 minutes', now, 'epoch') - ago * interval '5 minutes' as at) as began
),
-- How many of 1,000 answers end in each bucket of the histogram or before.
duration (endpoint, sums, slower_by) as (values
  ('analytics', '{0,0,0,0,20,200,720,960,995,1000,1000,1000,1000,1000,1000,1000}'::integer[], 3),
  ('validate', '{300,800,940,980,995,999,1000,1000,1000,1000,1000,1000,1000,1000,1000,1000}', 0),
  ('refresh', '{200,680,900,970,994,999,1000,1000,1000,1000,1000,1000,1000,1000,1000,1000}', 0)
),
slow as (
  insert into latency_steps (at, endpoint, process_id, refused, failed, buckets)
  select at, endpoint, process_id, refused_now, 0,
         -- The sum is that of the requests, because each bucket is a difference of two rounded sums.
         array(select round(each * coalesce(sums[bucket - later], 0) / 1000)
                      - round(each * coalesce(sums[bucket - later - 1], 0) / 1000)
                 from generate_series(1, 16) as bucket order by bucket)
    from given
         cross join five_minutes
         join (select hour, endpoint, coalesce(sum(count) filter (where code = 'OK'), 0) as successes,
                      coalesce(sum(count) filter (where code <> 'OK'), 0) as errors
                 from hours group by hour, endpoint) as answered using (hour)
         join duration using (endpoint)
         cross join hurried
         cross join lateral (
           -- The sum of an hour is that of its activity.
           select case when ago = 0 then hurried.refused when is_present then 0
                    else floor((of_hour + 1) * errors / 12) - floor(of_hour * errors / 12) end as refused_now,
                  case when is_slow then slower_by else 0 end as later) as refused
         cross join lateral (
           select case ago when 0 then hurried.requests
                    else refused_now + round(successes / 12 * (0.7 + 0.6 / 256
                      * get_byte(sha256(convert_to(concat(endpoint, extract(epoch from at)), 'UTF8')), 0))) end as each) as one
   where each > 0 and (ago > 0 or endpoint = 'analytics')
),
started as (
  insert into starts (kind, id, version, at)
  select 'process', process_id::text, version, min(at) from given cross join five_minutes where is_slow group by 2, 3
)
insert into activity_days (day, endpoint, code, reason, count)
select (hour at time zone 'UTC')::date, endpoint, code, reason, sum(count) from hours group by 1, 2, 3, 4

-- Fills an empty database as an installation looks after three years: `bench.keys` keys, on a fifth as many accounts.
--
-- What is common and what is rare is uneven on purpose. The oldest accounts have the most keys, the first one some
-- 2 % of them. Few keys are suspended, some are revoked or expired. Some combinations are empty: no enterprise key is a
-- test key, and none is suspended. A fifth of the accounts has a year of use. Every fiftieth key, from the first one
-- on, works and will work; the load for clients uses these.
--
-- Random numbers are hashes, so the same call makes the same rows, apart from their times.

-- Foreign keys and triggers are off: each would be checked row by row.
set session_replication_role = replica;
set work_mem = '256MB';
set maintenance_work_mem = '256MB';
set gin_pending_list_limit = '512MB';
set synchronous_commit = off;
-- The three years of the data end here. Identifiers begin with a time, so every statement needs the same one.
select set_config('bench.until', date_trunc('second', now())::text, false);

create function pg_temp.uuid_of(at timestamptz, number bigint) returns uuid language sql stable as $$
  select (lpad(to_hex((date_part('epoch', at) * 1000)::bigint), 12, '0') || '7' || lpad(to_hex(number % 4096), 3, '0')
    || '8' || left(md5(number::text), 15))::uuid
$$;

-- From 0 to below 1, always the same for one number and purpose.
create function pg_temp.draw(number bigint, purpose bigint) returns double precision language sql immutable as $$
  select (hashint8extended(number, purpose) & 2147483647) / 2147483648::double precision
$$;

create function pg_temp.pick(words text[], share double precision) returns text language sql immutable as $$
  select words[1 + floor(share * cardinality(words))::integer]
$$;

create function pg_temp.time_of(number bigint) returns timestamptz language sql stable as $$
  select current_setting('bench.until')::timestamptz - interval '3 years'
    + interval '3 years' * (number / (current_setting('bench.keys')::double precision + 1))
$$;

-- A row for each key. A rotated key shares license and account with the one before it.
create temporary table plan as
  with numbered as materialized (
    select n, case when n % 12 = 0 and n % 50 <> 2 then n - 1 else n end as m
      from generate_series(1, current_setting('bench.keys')::bigint) as n
  ),
  drawn as materialized (
    select n, m, m <> n as is_successor,
           case when m % 5 = 1 then m / 5 + 1
             else 1 + floor((m / 5 + 1) * pow(pg_temp.draw(m, 1), 3))::bigint end as a,
           pg_temp.time_of(n) as created_at, n % 50 = 1 as is_plain, pg_temp.draw(m, 2) as by_tier,
           pg_temp.draw(m, 3) as by_mode, pg_temp.draw(n, 4) as by_state, pg_temp.draw(m, 5) as by_expiry
      from numbered
  ),
  tiered as materialized (
    select *, case when is_plain then 'research' when by_tier < 0.72 then 'free' when by_tier < 0.9 then 'research'
                when by_tier < 0.985 then 'commercial' else 'enterprise' end as tier
      from drawn
  )
  select n, m, a, is_successor, created_at, tier, pg_temp.uuid_of(created_at, n) as key_id,
         pg_temp.uuid_of(pg_temp.time_of(m), m) as license_id,
         pg_temp.uuid_of(pg_temp.time_of(5 * a - 4), a) as account_id,
         case when by_mode < 0.12 and tier <> 'enterprise' and not is_plain then 'test' else 'live' end as mode,
         case when is_plain then 'active' when by_state < 0.06 then 'revoked'
           when by_state < 0.063 and tier in ('research', 'commercial') then 'suspended' else 'active' end as state,
         case when is_plain or (tier = 'free' and by_expiry < 0.7) then '9999-12-31 23:59:59+00'
           else pg_temp.time_of(m) + interval '1 year' * (1 + floor(by_expiry * 3)) end as expires_at
    from tiered;
analyze plan;

insert into accounts (id, email, name, organization, created_at)
  select pg_temp.uuid_of(pg_temp.time_of(5 * a - 4), a),
         lower(first || '.' || last) || a || '@' || case when pg_temp.draw(a, 6) < 0.4 then 'mail.example'
           else lower(town) || '.example' end,
         first || ' ' || last,
         case when pg_temp.draw(a, 6) < 0.4 then '' else kind || ' ' || town end, pg_temp.time_of(5 * a - 4)
    from generate_series(1, current_setting('bench.keys')::bigint / 5) as a,
         lateral (select
           pg_temp.pick('{Ada,Alan,Anna,Björn,Chen,Clara,Dana,Emil,Eva,Fatima,Grace,Hana,Ivan,Jan,Karin,Lars,Lea,Li,Maria,Max,Mia,Nils,Noor,Olga,Otto,Paul,Petra,Rosa,Sven,Tariq,Uma,Vera,Wei,Yuki,Zoe}', pg_temp.draw(a, 7)) as first,
           pg_temp.pick('{Ab,Ber,Da,El,Fal,Gar,Hol,Jan,Kar,Lin,Mor,Nor,Pet,Ros,Sal,Tor,Ul,Ver,Win,Zel}', pg_temp.draw(a, 8))
             || pg_temp.pick('{ba,den,der,go,ki,la,man,ne,ri,sen,ta,vo}', pg_temp.draw(a, 9))
             || pg_temp.pick('{berg,dal,er,feld,ini,lund,mann,ov,son,stein,sson,ward,wa}', pg_temp.draw(a, 10)) as last,
           pg_temp.pick('{University of,Institute of,Hospital of,Clinic of,Laboratory of,College of}', pg_temp.draw(a, 11)) as kind,
           pg_temp.pick('{Al,Bad,Cam,Dor,Est,Frei,Gra,Ham,Ips,Kal,Lan,Man,New,Os,Port,Que,Rot,San,Tam,Upp}', pow(pg_temp.draw(a, 12), 2))
             || pg_temp.pick('{bridge,burg,castle,dorf,ford,haven,holm,mouth,stad,ton,ville,wick}', pow(pg_temp.draw(a, 13), 2))
             || pg_temp.pick('{"",a,by,en,ia,o,um}', pg_temp.draw(a, 14)) as town) as words;

-- Two licenses of five have features of their own: one that many have, one that few have, and one that was withdrawn.
insert into licenses (id, account_id, tier, monthly_limit, expires_at, created_at, external_id, own_features, own_entitlements)
  select license_id, account_id, tier, case when pg_temp.draw(n, 15) < 0.02 then 1000000 end, expires_at, created_at,
         case when n % 7 = 0 then 'order-' || n end,
         case when n % 50 = 1 then '{}'
              when pg_temp.draw(n, 70) < 0.3 then '{"custom_models": {"granted": true}}'
              when pg_temp.draw(n, 70) < 0.35 then '{"custom_models": {"granted": true, "until": "2026-06-30T23:59:59Z"}}'
              when pg_temp.draw(n, 70) < 0.4 then '{"streaming": {"granted": false}}'
              when pg_temp.draw(n, 70) < 0.40002 then '{"rare_one": {"granted": true}}'
              else '{}' end::jsonb,
         case when n % 50 <> 1 and pg_temp.draw(n, 71) < 0.3 then '{"channels": 64, "region": "eu"}' else '{}' end::jsonb
    from plan where not is_successor
   order by n;

insert into keys (id, license_id, hash, hint, mode, state, own_expires_at, replaced_by, created_at, revoked_at, last_used_at)
  select p.key_id, p.license_id, sha256(convert_to(secret, 'UTF8')),
         left(secret, 13) || '…' || right(secret, 4), p.mode, p.state,
         case when s.n is not null then s.created_at + interval '7 days' end, s.key_id, p.created_at,
         case when p.state = 'revoked' then least(now(), p.created_at + interval '90 days' * pg_temp.draw(p.n, 16)) end,
         case when pg_temp.draw(p.n, 17) < 0.6 then p.created_at + (now() - p.created_at) * pg_temp.draw(p.n, 18) end
    from plan p
    left join plan s on s.is_successor and s.n = p.n + 1 and not p.is_successor,
         lateral (select 'svc_' || p.mode || '_'
           || left(encode(sha256(convert_to('benchmark key ' || p.n - 1, 'UTF8')), 'hex'), 48) as secret) as made
   order by p.n;

-- As the triggers do.
insert into listed_keys (key_id, account_id, tier, mode, state, expires_at)
  select k.id, l.account_id, l.tier, k.mode, k.state, least(l.expires_at, k.own_expires_at)
    from keys k join licenses l on l.id = k.license_id
   order by k.id;

insert into listed_features (feature, key_id, is_granted, ends_at)
  select own.name, k.id, (own.value->>'granted')::boolean,
         coalesce((own.value->>'until')::timestamptz, 'infinity')
    from keys k join licenses l on l.id = k.license_id cross join jsonb_each(l.own_features) as own (name, value)
   order by 1, 2;

insert into usage (license_id, month, used, granted, by_day, limited_to)
  select license_id, (date_trunc('month', now() at time zone 'UTC') - interval '1 month' * back)::date, used, 1,
         array_fill(used / 31, array[31]), 50000
    from plan, generate_series(11, 0, -1) as back,
         lateral (select 31 * (1 + floor(1000 * pow(pg_temp.draw(n, 19 + back), 4)))::bigint as used) as drawn
   where not is_successor and pg_temp.draw(a, 40) < 0.2
   order by back desc, n;

-- In an order that is nearly that of time, as several processes with clocks of their own leave it.
insert into audit (at, actor, action, account_id, license_id, key_id, before, after, reason, door, xid)
  select at, actor, action, account_id, license_id, key_id, null, '{"tier": "free", "mode": "live"}', reason, 'command',
         -- The first half is as an older program wrote it. The newer numbers are below those of this server.
         case when place > 0.5 * current_setting('bench.keys')::bigint
           then (3 + (place - 0.5 * current_setting('bench.keys')::bigint) / 5000)::bigint::text::xid8 end
    from (
      select *, row_number() over (order by at + interval '2 seconds' * pg_temp.draw(n, 60)) as place
        from (
          select n, created_at as at, pg_temp.pick('{token:shop,token:shop,token:shop,token:shop,command:root,command:anna,operator:olga}', pg_temp.draw(n, 50)) as actor,
                 'key.issue' as action, account_id, license_id, key_id, null as reason from plan
          union all
          select n, created_at + interval '90 days' * pg_temp.draw(n, 16),
                 case when n % 3 = 0 then 'http:192.0.2.' || n % 250 else 'operator:olga' end,
                 'key.revoke', account_id, license_id, key_id, 'refund' from plan where state = 'revoked'
          union all
          select n, created_at, 'token:shop', 'key.rotate', account_id, license_id, key_id, null from plan where is_successor
          union all
          select n, created_at, 'operator:otto', 'key.suspend', account_id, license_id, key_id, 'unpaid' from plan where state = 'suspended'
          union all
          select n, created_at + interval '30 days' * pg_temp.draw(n, 51), 'command:root', 'license.renew', account_id, license_id, key_id, null
            from plan where n % 20 = 3
          union all
          select n, created_at, 'operator:pia', pg_temp.pick('{account.erase,license.limit,token.issue,model.retire}', pg_temp.draw(n, 52)), account_id, null, null, null
            from plan where n % 20000 = 7
        ) as events
    ) as placed
   order by place;

-- 400 days with the rhythm of a day; in some hours many more requests are refused.
with kinds (id, endpoint, code, reason, most) as (values
  (1, 'validate', 'OK', '', 900000), (2, 'validate', 'INVALID_KEY', 'unknown', 4000), (3, 'validate', 'INVALID_KEY', 'suspended', 900),
  (4, 'validate', 'INVALID_KEY', 'revoked', 2500), (5, 'validate', 'KEY_EXPIRED', 'expired', 9000), (6, 'validate', 'QUOTA_EXCEEDED', '', 3000),
  (7, 'validate', 'MISSING_KEY', '', 300), (8, 'validate', 'INVALID_FORMAT', '', 350), (9, 'validate', 'RATE_LIMIT_EXCEEDED', '', 1200),
  (10, 'refresh', 'OK', '', 60000), (11, 'refresh', 'KEY_EXPIRED', 'expired', 700), (12, 'refresh', 'INVALID_KEY', 'revoked', 200),
  (13, 'analytics', 'OK', '', 2400000), (14, 'analytics', 'QUOTA_EXCEEDED', '', 21000), (15, 'analytics', 'INVALID_REQUEST', '', 400),
  (16, 'analytics', 'MISSING_EVENT_TYPE', '', 40), (17, 'analytics', 'KEY_EXPIRED', 'expired', 1100), (18, 'analytics', 'PAYLOAD_TOO_LARGE', '', 3),
  (19, 'models', 'OK', '', 9000), (20, 'models', 'NOT_FOUND', '', 60), (21, 'models', 'LICENSE_REQUIRED', '', 500),
  (22, 'downloads', 'OK', '', 2100), (23, 'downloads', 'INVALID_LINK', '', 20), (24, 'downloads', 'RANGE_NOT_SATISFIABLE', '', 2),
  (25, 'repo_token', 'OK', '', 800), (26, 'repo_token', 'NOT_CONFIGURED', '', 4), (27, 'license', 'OK', '', 5000),
  (28, 'license', 'OFFLINE_NOT_ALLOWED', '', 45), (29, 'revoke', 'OK', '', 30), (30, 'revoke', 'KEY_NOT_FOUND', '', 4),
  (31, 'jwks', 'OK', '', 5200), (32, 'health', 'OK', '', 720)
),
counted as (
  insert into activity_hours (hour, endpoint, code, reason, count)
  select at, endpoint, code, reason,
         1 + floor(most * (0.2 + 0.6 * abs(sin(pi() * extract(hour from at) / 24)) + 0.2 * pg_temp.draw(hours_ago, id))
                   * case when code <> 'OK' and hours_ago % 97 = 5 then 5 else 1 end)::bigint
    from generate_series(400 * 24 - 1, 0, -1) as hours_ago cross join kinds,
         lateral (select date_trunc('hour', current_setting('bench.until')::timestamptz) - interval '1 hour' * hours_ago as at) as hour
  returning *
)
insert into activity_days (day, endpoint, code, reason, count)
select (hour at time zone 'UTC')::date, endpoint, code, reason, sum(count) from counted group by 1, 2, 3, 4;

-- Two days of ten endpoints, as the upkeep leaves those of 16 processes: each has rows of its own for the last 80 minutes. Events
-- are slow since an hour.
insert into latency_steps (at, endpoint, process_id, refused, failed, buckets)
  select at, endpoint,
         case when ago > 16 then '00000000-0000-0000-0000-000000000000' else pg_temp.uuid_of(now(), process) end::uuid,
         2 * each / 100, (ago % 50 = 3)::integer,
         array(select each * coalesce(shares[bucket - case when ago <= 12 and endpoint = 'analytics' then 3 else 0 end], 0) / 1000
                 from generate_series(1, 16) as bucket order by bucket)
    from generate_series(575, 0, -1) as ago
         cross join unnest('{validate,refresh,analytics,analytics_batch,license,models,downloads,machine_heartbeat,jwks,health}'::text[])
                    with ordinality as named (endpoint, nth)
         cross join generate_series(1, case when ago > 16 then 1 else 16 end) as process,
         lateral (select date_bin('5 minutes', current_setting('bench.until')::timestamptz, 'epoch') - ago * interval '5 minutes' as at,
                         floor((1 + pg_temp.draw(ago * 16 + process, nth)) * case when ago > 16 then 80000 else 5000 end / nth)::bigint
                           as each,
                         case when nth % 2 = 1 then '{0,20,80,200,300,200,120,50,20,8,2}'::integer[]
                           else '{250,480,200,50,15,4,1}' end as shares) as drawn;

set session_replication_role = origin;
drop table plan;

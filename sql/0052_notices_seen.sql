-- What notices need to know of other processes, of wrong clocks and of machines that were refused (see src/notices).
-- runs with 27

-- When a process last found what a notice about the installation tells; null for all others. A process sees only its own host and
-- its own settings.
alter table notices add column seen_at timestamptz;

-- The notices whose beginning lies ahead, because a clock was wrong.
create index notices_true_since on notices (true_since) where state in ('open', 'done');

-- The notices that were put off.
create index notices_due on notices (remind_at) where state = 'open';

-- With what the count of the open ones reads.
drop index notices_open_kind;

create index notices_open_kind on notices (kind, id) include (remind_at) where state = 'open';

-- When a further machine was refused first, since all places of the license are taken.
alter table full_places add column refused_at timestamptz;

-- As in 0050, but it notes the first machine that is refused since all places are taken.
create or replace function take_place(
  of_license uuid, of_fingerprint bytea, new_id uuid, new_name text, new_platform text,
  is_activated boolean, until_signed timestamptz,
  out machine_id uuid, out active_until timestamptz, out most integer, out used integer, out room_at timestamptz,
  -- Whether the audit log is to note the machine as a new one.
  out is_new boolean
) language plpgsql as $$
#variable_conflict use_column
declare
  seat interval;
  instant timestamptz;
  known machines;
  forgotten integer;
begin
  select p.most, p.seat into most, seat from lock_places(of_license) p;
  if most is null then
    return;
  end if;
  instant := clock_timestamp();
  update machines m set ended_at = instant
   where m.license_id = of_license and m.ended_at is null and greatest(m.active_until, m.signed_until) <= instant;
  select count(*) into used from machines m where m.license_id = of_license and m.ended_at is null;
  select * into known from machines m where m.license_id = of_license and m.fingerprint = of_fingerprint;
  if known.id is null or known.ended_at is not null then
    if used >= most then
      -- There is no row if the last place was taken by an older program, or the limit was lowered.
      update full_places f set refused_at = instant where f.license_id = of_license and f.refused_at is null;
      insert into full_places (license_id, since, refused_at) values (of_license, instant, instant) on conflict do nothing;
      select greatest(m.active_until, m.signed_until) into room_at
        from machines m where m.license_id = of_license and m.ended_at is null
       order by 1 offset used - most limit 1;
      return;
    end if;
    used := used + 1;
    if used = most then
      insert into full_places as f (license_id, since) values (of_license, instant)
      on conflict (license_id) do update set since = excluded.since, refused_at = null;
    end if;
  end if;
  is_new := known.id is null;
  if is_new then
    -- So that made-up fingerprints do not fill the disk. Each machine that holds a place now can end before the next new one
    -- comes: so a license has never more than 1,000 + 10 * most machines that hold none.
    delete from machines m
     where m.id in (select e.id from machines e where e.license_id = of_license and e.ended_at is not null
                     order by e.ended_at desc offset 1000 + 9 * most::bigint);
    -- Nor does a license with so many machines fill the audit log.
    get diagnostics forgotten = row_count;
    is_new := forgotten = 0;
  end if;
  if new_name is not null or new_platform is not null then
    -- The key was valid a moment ago; since then, the account can have been erased.
    select new_name, new_platform into new_name, new_platform
      from licenses l join accounts a on a.id = l.account_id
     where l.id = of_license and not is_erased(a);
  end if;
  insert into machines as m (id, license_id, fingerprint, name, platform, activated_at, last_seen_at, active_until,
                             signed_until)
  values (new_id, of_license, of_fingerprint, new_name, new_platform, instant, instant,
          case when is_activated then coalesce(instant + seat, 'infinity') else '-infinity' end,
          coalesce(until_signed, '-infinity'))
  on conflict (license_id, fingerprint) do update
    set name = coalesce(excluded.name, m.name), platform = coalesce(excluded.platform, m.platform),
        activated_at = case when m.ended_at is null then m.activated_at else instant end,
        last_seen_at = case when is_activated then instant else m.last_seen_at end,
        active_until = case when is_activated then excluded.active_until
                            when m.ended_at is null then m.active_until else '-infinity' end,
        signed_until = greatest(m.signed_until, excluded.signed_until),
        released_at = null,
        ended_at = null
  returning m.id, m.active_until into machine_id, active_until;
end
$$;

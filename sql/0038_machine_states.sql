-- The states of machines tell why a place ended, and a place that a signed license holds outlasts the machine limit. See
-- src/machines/list_machines.ts.
-- runs with 27

-- When its activation ended by a release; null since its next activation, and of machines that were released earlier.
alter table machines add column released_at timestamptz;

-- The state by the columns alone, as before: one that ended by itself is active here until the upkeep has seen it. Without
-- an activation only a signed license holds the place.
drop index machines_by_state, machines_of_license_by_state, machines_of_account_by_state;
alter table machines
  drop column stored_state,
  add column stored_state text collate "C" not null generated always as (
    case when ended_at is null then case when active_until = '-infinity' then 'offline' else 'active' end
         when released_at is null then 'ended'
         else 'released' end
  ) stored;

create index machines_by_state on machines (stored_state, id);
create index machines_of_license_by_state on machines (license_id, stored_state, id);
create index machines_of_account_by_state on machines (account_id, stored_state, id);

-- As in 0028, but a new place makes the machine forget its last release.
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
      select greatest(m.active_until, m.signed_until) into room_at
        from machines m where m.license_id = of_license and m.ended_at is null
       order by 1 offset used - most limit 1;
      return;
    end if;
    used := used + 1;
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

-- As in 0028, but it notes the release.
create or replace function release_place(of_license uuid, of_fingerprint bytea) returns setof machines language plpgsql as $$
declare
  instant timestamptz;
begin
  perform lock_places(of_license);
  instant := clock_timestamp();
  return query
    update machines m
       set active_until = '-infinity', released_at = instant,
           ended_at = case when m.signed_until <= instant then instant end
     where m.license_id = of_license and m.fingerprint = of_fingerprint
       and m.ended_at is null and m.active_until > instant
    returning m.*;
end
$$;

-- Another length of the seats counts from now on for the machines that are active. Without a limit no machine is active, and
-- only the licenses that were signed for machines hold places: no change of a license can end those licenses.
create or replace function change_places() returns trigger language plpgsql as $$
declare
  instant timestamptz := clock_timestamp();
begin
  update machines m
     set ended_at = case when m.signed_until <= instant and (new.max_machines is null or m.active_until <= instant)
                         then instant end,
         active_until = case when m.active_until > instant and new.max_machines is not null
                             then coalesce(instant + make_interval(mins => new.seat_minutes), 'infinity')
                             else '-infinity' end
   where m.license_id = new.id and m.ended_at is null;
  return null;
end
$$;

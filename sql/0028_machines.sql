-- Machines: where a license runs, and how many places it has for them. See src/machines.
-- runs with 27

alter table licenses
  -- The number of places. Null: machines are not counted.
  add column max_machines integer constraint max_machines_range check (max_machines between 1 and 1000000),
  -- How long a place lasts after its last heartbeat. Null: until it is released.
  add column seat_minutes integer constraint seat_minutes_range check (seat_minutes between 5 and 1440),
  add constraint seats_need_places check (seat_minutes is null or max_machines is not null);

-- One row for each fingerprint of a license. A machine holds a place while `ended_at` is null. Before an activation counts,
-- it sets `ended_at` of every machine of the license that is due. Only another activation of that machine removes it. So a
-- place that was given away never counts for its former machine again, also not after the clock steps back.
create table machines (
  id uuid not null constraint machines_pkey primary key,
  license_id uuid not null constraint machine_has_license references licenses (id),
  -- Keyed with the root secret: nobody can guess it from the name of a machine, or find a machine in two licenses.
  fingerprint bytea not null constraint fingerprint_length check (length(fingerprint) = 32),
  name text,
  platform text,
  -- Since when it holds its place, or held its last one.
  activated_at timestamptz not null,
  last_seen_at timestamptz not null,
  -- When the activation ends without a heartbeat: infinity if only a release ends it, -infinity after a release.
  active_until timestamptz not null,
  -- The end of the last license that was signed for the machine. Until then its place stays taken.
  signed_until timestamptz not null default '-infinity',
  ended_at timestamptz,
  constraint fingerprint_unique unique (license_id, fingerprint)
) with (fillfactor = 80);

-- The machines that hold a place, and the indexes of the lists, which sort by `id`. A heartbeat changes none of their
-- columns: so it writes no index.
create index machines_holding on machines (license_id, id) where ended_at is null;
create index machines_of_license on machines (license_id, id);
create index machines_all_holding on machines (id) where ended_at is null;
create index machines_all_ended on machines (id) where ended_at is not null;
create index machines_all_signed on machines (id) where ended_at is null and signed_until > '-infinity';

-- The machines of a license that hold none, so that the oldest of them can be deleted.
create index machines_ended on machines (license_id, ended_at) where ended_at is not null;

-- Locks a license for a change of its places, and returns its limits. Callers count afterwards, in another statement: so they
-- see what the previous holder of the lock has committed.
create function lock_places(of_license uuid, out most integer, out seat interval) language plpgsql as $$
begin
  select l.max_machines, make_interval(mins => l.seat_minutes) into most, seat
    from licenses l where l.id = of_license
     for no key update;
end
$$;

-- Gives a machine a place until it is released or its seat ends, and until `until_signed` if that is not null. A machine
-- that holds a place keeps it. `is_activated` is false where only the signature holds the place. Refuses if every place
-- is taken: then `machine_id` is null, and `room_at` says when the next place can become free by itself, if ever.
create function take_place(
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
        ended_at = null
  returning m.id, m.active_until into machine_id, active_until;
end
$$;

-- Renews the seats of machines, of any licenses. The arrays have one entry for each heartbeat, without repetitions. Returns
-- a row for each machine that is active. Of a license without a limit the row has no machine. If another statement holds a
-- license, its heartbeats wait if `waits` is true; otherwise their rows say `is_busy`, and nothing was renewed.
create function renew_seats(of_licenses uuid[], of_fingerprints bytea[], waits boolean)
returns table (license_id uuid, fingerprint bytea, machine_id uuid, active_until timestamptz, is_busy boolean)
language plpgsql as $$
#variable_conflict use_column
declare
  held uuid[];
begin
  -- Every caller locks in this order, so no two wait for each other.
  if waits then
    held := array(select l.id from licenses l where l.id = any(of_licenses) order by l.id for no key update);
  else
    held := array(select l.id from licenses l where l.id = any(of_licenses) order by l.id for no key update skip locked);
  end if;
  return query
    update machines m
       set last_seen_at = clock_timestamp(),
           active_until = coalesce(clock_timestamp() + make_interval(mins => l.seat_minutes), 'infinity')
      from unnest(of_licenses, of_fingerprints) as beat (license_id, fingerprint)
      join licenses l on l.id = beat.license_id
     where m.license_id = beat.license_id and m.fingerprint = beat.fingerprint
       and l.id = any(held) and l.max_machines is not null
       and m.ended_at is null and m.active_until > clock_timestamp()
    returning m.license_id, m.fingerprint, m.id, m.active_until, false;
  return query
    select beat.license_id, beat.fingerprint, null::uuid, null::timestamptz, l.max_machines is not null
      from unnest(of_licenses, of_fingerprints) as beat (license_id, fingerprint)
      join licenses l on l.id = beat.license_id
     where l.max_machines is null or l.id <> all(held);
end
$$;

-- Ends the activation of a machine. Its place stays taken until the last license that was signed for it has ended.
-- Returns no row if it is not active.
create function release_place(of_license uuid, of_fingerprint bytea) returns setof machines language plpgsql as $$
declare
  instant timestamptz;
begin
  perform lock_places(of_license);
  instant := clock_timestamp();
  return query
    update machines m
       set active_until = '-infinity', ended_at = case when m.signed_until <= instant then instant end
     where m.license_id = of_license and m.fingerprint = of_fingerprint
       and m.ended_at is null and m.active_until > instant
    returning m.*;
end
$$;

-- Keeps the place of an active machine taken until the end of a license that will be signed for it. Returns no machine if
-- it is not active.
create function sign_place(
  of_license uuid, of_fingerprint bytea, until_signed timestamptz, out machine_id uuid, out most integer
) language plpgsql as $$
begin
  select p.most into most from lock_places(of_license) p;
  update machines m set signed_until = greatest(m.signed_until, until_signed)
   where m.license_id = of_license and m.fingerprint = of_fingerprint and most is not null
     and m.ended_at is null and m.active_until > clock_timestamp()
  returning m.id into machine_id;
end
$$;

-- Another length of the seats counts from now on for the machines that are active. Without a limit no machine holds a place.
create function change_places() returns trigger language plpgsql as $$
declare
  instant timestamptz := clock_timestamp();
begin
  update machines m
     set ended_at = case when new.max_machines is null or greatest(m.active_until, m.signed_until) <= instant then instant end,
         active_until = case when m.active_until > instant and new.max_machines is not null
                             then coalesce(instant + make_interval(mins => new.seat_minutes), 'infinity')
                             else '-infinity' end
   where m.license_id = new.id and m.ended_at is null;
  return null;
end
$$;

create trigger licenses_change_places after update of max_machines, seat_minutes on licenses
  for each row
  when (new.seat_minutes is distinct from old.seat_minutes
        or (new.max_machines is null and old.max_machines is not null))
  execute function change_places();

-- Tells whether the person was erased from an account. See src/licensing/_erased_email.ts.
create function is_erased(account accounts) returns boolean language sql stable as $$
  select account.email = 'erased-' || account.id || '@erased.invalid'
$$;

-- Removes the texts that can name a person. Waits for activations, and a later one finds the account erased.
create function erase_machines() returns trigger language plpgsql as $$
begin
  perform from licenses l where l.account_id = new.id order by l.id for no key update;
  update machines m set name = null, platform = null
    from licenses l
   where l.account_id = new.id and m.license_id = l.id and (m.name is not null or m.platform is not null);
  return null;
end
$$;

create trigger accounts_erase_machines after update of email on accounts
  for each row
  when (is_erased(new))
  execute function erase_machines();

-- Terms that begin with the first use of a license (see src/licensing/terms.ts), how long a license works without a network,
-- and machines that customers release themselves (see src/licensing/machines).
-- runs with 27

-- The rows that exist have none of these values, so they are not read: a long lock would stop the service.
alter table licenses
  -- The license ends so many days after its first use. Until then `expires_at` is the latest start and these days.
  add column term_days integer,
  -- The term begins then at the latest, also without a use.
  add column latest_start timestamptz,
  -- When the term began; null before the first use.
  add column started_at timestamptz,
  add constraint term_days_range check (term_days between 1 and 3650) not valid,
  add constraint term_has_latest_start check ((term_days is null) = (latest_start is null)) not valid,
  add constraint start_needs_term check (started_at is null or term_days is not null) not valid,
  -- For how many days a client gets a signed license; 0: for none. Null: as the tier says.
  add column max_offline_days integer,
  add constraint max_offline_days_range check (max_offline_days between 0 and 3650) not valid,
  -- How many machines its clients may release by their ids in 30 days. Null: the usual number.
  add column self_releases integer,
  add constraint self_releases_range check (self_releases between 0 and 1000000) not valid,
  -- Whether its clients see the names of its machines. Null: if they are node-locked.
  add column shows_machines boolean,
  drop constraint seat_minutes_range,
  add constraint seat_minutes_range check (seat_minutes between 5 and 129600) not valid;

-- As in 0044, but the new values are noticed, too.
create or replace trigger note_change
  before update of account_id, tier, monthly_limit, expires_at, max_machines, seat_minutes, updates_until, own_features,
                   own_entitlements, term_days, latest_start, started_at, max_offline_days, self_releases, shows_machines
  on licenses for each row execute function note_change();

-- The releases of machines by their ids. The upkeep deletes those that no bound counts any more.
create table self_releases (
  license_id uuid not null constraint self_release_has_license references licenses (id),
  released_at timestamptz not null,
  machine_id uuid not null,
  constraint self_releases_pkey primary key (license_id, released_at, machine_id)
);

-- How many machines the clients of a license may release by their ids, and in which time. Machines that keep their places
-- longer than a day without a heartbeat count as node-locked.
create function self_release_bound(of licenses, out most integer, out within interval) language sql immutable as $$
  select coalesce(of.self_releases, case when of.seat_minutes <= 1440 then of.max_machines * 10 else 3 end),
         case when of.self_releases is null and of.seat_minutes <= 1440 then interval '24 hours'
              else 30 * interval '24 hours' end
$$;

-- Releases a machine of a license by its id, and counts that. Without a machine of that id that is active, `state` is null, and
-- `taken_until` is the end of the last license that was signed for it, if that holds its place. If too many were released,
-- `state` is null, and `room_at` is when the next one can be, or infinity.
create function release_by_id(
  of_license uuid, of_machine uuid,
  out places integer, out machine_id uuid, out state text, out taken_until timestamptz, out most integer, out used integer,
  out room_at timestamptz
) language plpgsql as $$
#variable_conflict use_column
declare
  instant timestamptz;
  license licenses;
  machine machines;
  within interval;
begin
  select p.most into places from lock_places(of_license) p;
  if places is null then
    return;
  end if;
  instant := clock_timestamp();
  select * into license from licenses l where l.id = of_license;
  select * into machine from machines m where m.id = of_machine and m.license_id = of_license and m.ended_at is null;
  if machine.active_until > instant then
    select b.most, b.within into most, within from self_release_bound(license) b;
    select count(*) into used from self_releases s where s.license_id = of_license and s.released_at > instant - within;
    if used >= most then
      room_at := coalesce(
        (select s.released_at + within from self_releases s
          where s.license_id = of_license and s.released_at > instant - within
          order by s.released_at offset used - most limit 1), 'infinity');
      return;
    end if;
    select r.id, case when r.ended_at is null then 'offline' else 'released' end, r.signed_until
      into machine_id, state, taken_until
      from release_place(of_license, machine.fingerprint) r;
    -- Its seat can have ended since the instant.
    if state is not null then
      insert into self_releases (license_id, released_at, machine_id) values (of_license, instant, machine.id);
      used := used + 1;
    end if;
  else
    taken_until := machine.signed_until;
  end if;
  if taken_until <= instant then
    taken_until := null;
  end if;
end
$$;

-- Ends the place of a machine that a signed license holds, although that license still works without a network. `signed_until`
-- is the end of the license; no row if no signed license holds the place.
create function free_place(of_license uuid, of_machine uuid)
returns table (license_id uuid, machine_id uuid, was_active boolean, signed_until timestamptz) language plpgsql as $$
#variable_conflict use_column
declare
  instant timestamptz;
  places integer;
  taken bigint;
begin
  select p.most into places from lock_places(of_license) p;
  instant := clock_timestamp();
  select count(*) into taken from machines m where m.license_id = of_license and m.ended_at is null;
  return query
    with held as (
      select m.id, m.active_until > instant as was_active, m.signed_until from machines m
       where m.id = of_machine and m.license_id = of_license and m.ended_at is null and m.signed_until > instant
    )
    update machines m
       set active_until = '-infinity', signed_until = '-infinity', released_at = instant, ended_at = instant
      from held where m.id = held.id
    returning m.license_id, m.id, held.was_active, held.signed_until;
  if found and taken >= places then
    update licenses l set changed_xid = pg_current_xact_id() where l.id = of_license;
  end if;
end
$$;

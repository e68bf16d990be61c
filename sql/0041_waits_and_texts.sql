-- How many bytes of texts the events of a license and of the installation store in a day (see src/usage/_text_room.ts), and
-- how the processes learn that a full license may have a free place (see src/licensing/machines/waiting_machines.ts).
-- runs with 27

-- The texts of the newest day with texts, UTC, for each license.
create table event_texts (
  license_id uuid not null constraint event_texts_pkey primary key,
  day date not null,
  -- Of all events of the day that were stored, with the texts that were left out because of the bound of the license.
  bytes bigint not null constraint bytes_not_negative check (bytes >= 0),
  -- Since when texts of the day are left out; null if all were stored.
  left_out_at timestamptz
) with (fillfactor = 60);

-- A license gets into it at most once a day, so a commit seldom writes it.
create index event_texts_left_out on event_texts (day) where left_out_at is not null;

-- The texts that the installation stored on the newest day with texts, in parts: commits at the same time seldom wait for each
-- other. The sum of the parts is what counts.
create table installation_texts (
  part smallint not null constraint installation_texts_pkey primary key constraint part_range check (part between 0 and 15),
  day date not null,
  bytes bigint not null constraint bytes_not_negative check (bytes >= 0)
) with (fillfactor = 10);

-- Whether the texts of the event were left out: the answer to a repeated event says it, too.
alter table claims add column truncated boolean not null default false;

-- As in 0001, but a change of the places is noticed, too.
create or replace trigger note_change
  before update of account_id, tier, monthly_limit, expires_at, max_machines, seat_minutes on licenses
  for each row execute function note_change();

-- As in 0038, but a release of a full license is noticed by every process: machines may wait for a place.
create or replace function release_place(of_license uuid, of_fingerprint bytea) returns setof machines language plpgsql as $$
declare
  instant timestamptz;
  places integer;
  taken bigint;
begin
  select p.most into places from lock_places(of_license) p;
  instant := clock_timestamp();
  select count(*) into taken from machines m where m.license_id = of_license and m.ended_at is null;
  return query
    update machines m
       set active_until = '-infinity', released_at = instant,
           ended_at = case when m.signed_until <= instant then instant end
     where m.license_id = of_license and m.fingerprint = of_fingerprint
       and m.ended_at is null and m.active_until > instant
    returning m.*;
  if found and taken >= places then
    update licenses l set changed_xid = pg_current_xact_id() where l.id = of_license;
  end if;
end
$$;

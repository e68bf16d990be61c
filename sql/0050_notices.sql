-- Notices: what operators should know before a customer calls (see src/notices).
-- runs with 27

-- The accounts and licenses for which no notice is made.
create table muted_notices (
  id uuid constraint muted_notices_pkey primary key,
  account_id uuid constraint muted_has_account references accounts (id) constraint muted_account_once unique,
  license_id uuid constraint muted_has_license references licenses (id) constraint muted_license_once unique,
  muted_at timestamptz not null,
  muted_by text not null,
  constraint muted_names_one check (num_nonnulls(account_id, license_id) = 1)
);

-- A notice is one row for its kind, its subject, its occasion and its stage, so it exists once, whatever the number of processes
-- and restarts. Rows are never deleted: what is not true any more is withdrawn.
create table notices (
  id uuid constraint notices_pkey primary key,
  kind text collate "C" not null constraint notice_kind_length check (length(kind) between 1 and 40),
  -- The id of a license or a key, or a word such as `backup`.
  subject text collate "C" not null constraint notice_subject_length check (length(subject) between 1 and 300),
  -- What it warns of, such as the end of a license: another end is another occasion.
  occasion text collate "C" not null constraint notice_occasion_length check (length(occasion) between 1 and 300),
  -- Of the stages of an occasion only the highest is open. For an end, minus the days before it, and 0 after it; for a quota, the
  -- percent.
  stage integer not null,
  license_id uuid constraint notice_has_license references licenses (id),
  key_id uuid constraint notice_has_key references keys (id),
  true_since timestamptz not null,
  made_at timestamptz not null,
  facts jsonb not null,
  state text collate "C" not null default 'open'
    constraint notice_state_known check (state in ('open', 'done', 'withdrawn', 'replaced')),
  -- Until then it is not shown among the open ones.
  remind_at timestamptz,
  closed_at timestamptz constraint closed_unless_open check ((state = 'open') = (closed_at is null)),
  closed_by text,
  -- Why it is not true any more, in a word.
  withdrawn_for text,
  constraint notice_is_unique unique (kind, subject, occasion, stage)
);

create index notices_open on notices (id) where state = 'open';
create index notices_open_kind on notices (kind, id) where state = 'open';
create index notices_kind on notices (kind, id);
create index notices_license on notices (license_id, id);

-- Since when every place of a license is taken, if all are taken now: the last free place was taken then. A place that becomes
-- free changes nothing here, and the machine that takes it is the next to note a time.
create table full_places (
  license_id uuid constraint full_places_pkey primary key constraint full_places_has_license references licenses (id),
  since timestamptz not null
);

create index full_places_since on full_places (since, license_id);

-- As in 0038, but it notes when the last free place is taken.
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
      -- If the last place was taken by an older program, or the limit was lowered.
      insert into full_places (license_id, since) values (of_license, instant) on conflict do nothing;
      select greatest(m.active_until, m.signed_until) into room_at
        from machines m where m.license_id = of_license and m.ended_at is null
       order by 1 offset used - most limit 1;
      return;
    end if;
    used := used + 1;
    if used = most then
      insert into full_places as f (license_id, since) values (of_license, instant)
      on conflict (license_id) do update set since = excluded.since;
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

-- With another limit, nobody knows since when all places are taken.
create function forget_full_places() returns trigger language plpgsql as $$
begin
  delete from full_places where license_id = new.id;
  return null;
end
$$;

create trigger licenses_forget_full_places after update of max_machines on licenses
  for each row
  when (new.max_machines is distinct from old.max_machines)
  execute function forget_full_places();

-- The keys that were used again after a long time without a use: the last such time (see src/licensing/keys/last_use.ts).
create table key_wakings (
  key_id uuid constraint key_wakings_pkey primary key constraint key_waking_has_key references keys (id),
  -- The last use before that time.
  silent_since timestamptz not null,
  woke_at timestamptz not null
);

create index key_wakings_at on key_wakings (woke_at, key_id);

-- How often each key was refused, by hour and code. A row is deleted after a day.
create table refused_hours (
  hour timestamptz not null,
  key_id uuid not null,
  code text collate "C" not null,
  count bigint not null constraint refused_hour_positive check (count > 0),
  constraint refused_hours_pkey primary key (hour, key_id, code)
) with (fillfactor = 80);

create index refused_hours_key on refused_hours (key_id, hour);

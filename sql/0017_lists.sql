-- The values by which the lists of operators filter keys: a narrow row for each key. The next migration fills the table
-- with the
-- keys that exist.
--
-- Tier and expiry belong to the license, mode and state to the key, and an index covers only one table. With indexes on
-- both tables, two frequent values that never occur together would cost a join of all their rows. No event and no use
-- of a key changes a row here.
create table listed_keys (
  key_id uuid constraint listed_keys_pkey primary key,
  account_id uuid not null,
  tier text collate "C" not null,
  mode text collate "C" not null,
  state text collate "C" not null,
  -- The expiry of the license, or the key's own expiry if that is earlier.
  expires_at timestamptz not null,
  -- The first day of the month of that expiry, UTC. An index on the time itself could not return the keys of a month in
  -- their order.
  expiry_month date not null
    generated always as (date_trunc('month', expires_at at time zone 'UTC')::date) stored
);

-- Each of these functions locks the license, so that two simultaneous changes of a license and its keys wait for each
-- other, and the later one sees both.

create function list_new_keys() returns trigger language plpgsql as $$
begin
  insert into listed_keys (key_id, account_id, tier, mode, state, expires_at)
  select k.id, l.account_id, l.tier, k.mode, k.state, least(l.expires_at, k.own_expires_at)
    from made k join licenses l on l.id = k.license_id
   order by l.id
     for share of l;
  return null;
end
$$;

create function list_changed_key() returns trigger language plpgsql as $$
begin
  perform from licenses where id = new.license_id for share;
  insert into listed_keys (key_id, account_id, tier, mode, state, expires_at)
  select new.id, l.account_id, l.tier, new.mode, new.state, least(l.expires_at, new.own_expires_at)
    from licenses l
   where l.id = new.license_id
  on conflict (key_id) do update
    set account_id = excluded.account_id, tier = excluded.tier, mode = excluded.mode, state = excluded.state,
        expires_at = excluded.expires_at;
  return null;
end
$$;

create function list_changed_license() returns trigger language plpgsql as $$
begin
  insert into listed_keys (key_id, account_id, tier, mode, state, expires_at)
  select k.id, new.account_id, new.tier, k.mode, k.state, least(new.expires_at, k.own_expires_at)
    from keys k
   where k.license_id = new.id
   order by k.id
  on conflict (key_id) do update
    set account_id = excluded.account_id, tier = excluded.tier, mode = excluded.mode, state = excluded.state,
        expires_at = excluded.expires_at;
  return null;
end
$$;

create trigger list_new_keys after insert on keys
  referencing new table as made for each statement execute function list_new_keys();
create trigger list_changed_key after update of license_id, mode, state, own_expires_at on keys
  for each row
  when ((old.license_id, old.mode, old.state, old.own_expires_at)
        is distinct from (new.license_id, new.mode, new.state, new.own_expires_at))
  execute function list_changed_key();
create trigger list_changed_license after update of account_id, tier, expires_at on licenses
  for each row
  when ((old.account_id, old.tier, old.expires_at) is distinct from (new.account_id, new.tier, new.expires_at))
  execute function list_changed_license();

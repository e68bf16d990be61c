-- The orders of the list of keys: by expiry, by the use of the month, and by the last use. See src/keys/_listed_keys.ts.
-- runs with 27

-- A page by expiry is merged from the first keys of each tier, mode and state. Only operators change an expiry.
drop index concurrently if exists listed_keys_expiry;

create index concurrently listed_keys_expiry on listed_keys (tier, mode, state, expires_at, key_id);

-- The 10,000 keys whose licenses used most in the month.
create table if not exists figure_most_used (
  key_id uuid not null,
  used bigint not null,
  constraint figure_most_used_pkey primary key (key_id, used)
);

-- The 10,000 keys that were used last.
create table if not exists figure_latest_used (
  key_id uuid not null,
  last_used_at timestamptz not null,
  constraint figure_latest_used_pkey primary key (key_id, last_used_at)
);

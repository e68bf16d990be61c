-- The processes that serve this database: each renews its row every minute. See src/processes.
create table processes (
  id uuid constraint processes_pkey primary key,
  version text not null,
  -- The name of the host, and where clients reach the process on it.
  host text not null,
  address text not null,
  -- By the clock of the database, because the hosts' clocks may differ.
  started_at timestamptz not null default now(),
  seen_at timestamptz not null default now()
);

-- When the operator last used the console, exact to the minute. It stays when the session ends.
alter table operators add column last_seen_at timestamptz;

update operators o
   set last_seen_at = (select max(s.last_seen_at) from operator_sessions s where s.operator = o.name);

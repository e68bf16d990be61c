-- The processes that serve this database: each renews its row every minute. See src/activity.
create table processes (
  id uuid constraint processes_pkey primary key,
  version text not null,
  -- Where clients reach the process, as its settings say.
  address text not null,
  started_at timestamptz not null,
  seen_at timestamptz not null
);

-- How long requests took, and when the service and its database were started (see src/usage/latency/mod.ts and
-- src/database/processes/starts.ts).
-- runs with 27

-- What a process answered in five minutes, for each endpoint. Rows are kept for 48 hours. The program has fewer than 20
-- endpoints, and each five minutes of an endpoint have at most 64 processes and one row for all others: that is less than
-- 800,000 rows, of about 300 bytes. One process makes at most 12,000 rows.
create table latency_steps (
  -- The beginning of the five minutes.
  at timestamptz not null,
  endpoint text not null,
  -- All zeros for the processes beyond the first 64.
  process_id uuid not null,
  refused bigint not null constraint latency_refused_not_negative check (refused >= 0),
  failed bigint not null constraint latency_failed_not_negative check (failed >= 0),
  -- How many requests ended within each bound, and not within the one before; the last count is above all bounds. Their sum is
  -- the number of requests. The program has the bounds: if it gets others, a migration must empty this table.
  buckets bigint[] not null constraint latency_buckets_bounded check (cardinality(buckets) between 1 and 21),
  constraint latency_steps_pkey primary key (at, endpoint, process_id)
);

-- When processes and the database server were started, for 48 hours, and the last start before them: at most 500 of each kind.
create table starts (
  kind text not null constraint start_kind_known check (kind in ('process', 'database')),
  -- The id of the process; for the server, its identity and the time of its start.
  id text not null,
  -- The version of the process; the identity of the server (see server_identity).
  version text not null,
  -- When the start was noticed, by the clock of the database.
  at timestamptz not null default now(),
  constraint starts_pkey primary key (kind, id)
);

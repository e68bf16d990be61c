-- Figures over all customers, which are computed ahead. See src/statistics.

-- Use per day of all licenses together.
create table usage_days (
  -- For imported use, which has no day, the first day of its month.
  day date not null,
  is_imported boolean not null,
  -- The tier of the licenses at the end of the day.
  tier text collate "C" not null,
  -- `live`, `test` or `live+test`, as in the export for accounting.
  mode text collate "C" not null,
  used bigint not null constraint usage_day_not_negative check (used >= 0),
  constraint usage_days_pkey primary key (day, is_imported, tier, mode)
);

-- How far usage_days is: one row.
create table usage_days_progress (
  is_only boolean default true constraint usage_days_progress_pkey primary key,
  -- The events that were received before are counted.
  added_until timestamptz not null,
  -- The days before are exact.
  exact_until date not null,
  -- The months before are not counted yet; null if all are.
  filled_from date,
  -- A process counts until then at the latest; null if none does.
  busy_until timestamptz,
  constraint usage_days_progress_is_only check (is_only)
);

-- The latest stored figures: one row for each kind.
create table figures (
  name text constraint figures_pkey primary key,
  as_of timestamptz not null,
  -- Accounts and licenses by their ids only, so that nothing of an erased account stays here.
  value jsonb not null
);

-- The keys of the licenses that have used 80 % of their quota or more.
create table figure_near_quota (
  key_id uuid not null,
  percent integer not null,
  constraint figure_near_quota_pkey primary key (key_id, percent)
);

-- The keys that were neither used nor issued for 30 days or longer.
create table figure_unused (
  key_id uuid not null,
  -- 30, 90, 180 or 365: the longest that is true.
  days smallint not null,
  constraint figure_unused_pkey primary key (key_id, days)
);

-- The last computation of the figures: one row, so that one process at a time computes them.
create table figure_run (
  is_only boolean default true constraint figure_run_pkey primary key,
  began_at timestamptz not null,
  -- Null while it runs.
  took_ms double precision,
  constraint figure_run_is_only check (is_only)
);

-- Figures over all customers, which are computed ahead. See src/statistics.

-- Use per day of all licenses together.
create table usage_days (
  day date not null,
  -- The tier of the licenses at the end of the day.
  tier text not null,
  -- `live`, `test` or `live+test`, as in the export for accounting.
  mode text not null,
  used bigint not null constraint usage_day_not_negative check (used >= 0),
  constraint usage_days_pkey primary key (day, tier, mode)
);

-- The latest stored figures: one row for each kind.
create table figures (
  name text constraint figures_pkey primary key,
  as_of timestamptz not null,
  -- How long it took to compute them, in milliseconds.
  took_ms double precision not null,
  value jsonb not null
);

-- How many requests each endpoint answered, by hour, code and reason. See src/activity.
create table activity_hours (
  hour timestamptz not null,
  endpoint text not null,
  -- `OK` for an answer without an error.
  code text not null,
  -- Why a key was refused; empty if the code says it all.
  reason text not null,
  count bigint not null constraint activity_count_positive check (count > 0),
  constraint activity_hours_pkey primary key (hour, endpoint, code, reason)
);

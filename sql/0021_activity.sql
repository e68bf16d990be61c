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

-- The same counts by day, UTC: a year of hours is too much to add up when a page is opened.
create table activity_days (
  day date not null,
  endpoint text not null,
  code text not null,
  reason text not null,
  count bigint not null constraint activity_day_count_positive check (count > 0),
  constraint activity_days_pkey primary key (day, endpoint, code, reason)
);

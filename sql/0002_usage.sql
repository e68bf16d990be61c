-- What a license has used of its month, and the events behind it.

create table usage (
  license_id uuid not null constraint usage_has_license references licenses (id),
  -- The first day of the month, UTC.
  month date not null constraint month_is_first_day check (extract(day from month) = 1),
  used bigint not null constraint used_not_negative check (used between 0 and 9007199254740991),
  -- How many units the last statement was given: how a statement learns from its own upsert what it got.
  granted bigint not null default 0,
  -- Units by day of the month: by_day[1] is the first. One row to write instead of two.
  by_day bigint[] not null default array_fill(0::bigint, array[31]),
  constraint usage_pkey primary key (license_id, month)
) with (fillfactor = 60);

-- What each commit of events did to the counts, for the other processes' caches. Rows live for a minute.
create table usage_changes (
  changed_xid xid8 not null default pg_current_xact_id(),
  writer uuid not null,
  written_at timestamptz not null default now(),
  month date not null,
  license_ids uuid[] not null,
  used bigint[] not null
);

create index usage_changes_changed on usage_changes (changed_xid);

-- Partitioned by month, so that what is old goes by whole partitions. No foreign keys: one costs 4 µs an
-- event, and keys and licenses are never deleted.
create table events (
  id uuid not null,
  received_at timestamptz not null,
  key_id uuid not null,
  license_id uuid not null,
  event_type text not null constraint event_type_known check (event_type in ('inference', 'model_load', 'error')),
  model_name text,
  inference_type text constraint inference_type_known check (inference_type in ('batch', 'streaming')),
  duration_ms double precision constraint duration_not_negative check (duration_ms >= 0),
  success boolean not null,
  error_message text,
  metadata jsonb
) partition by range (received_at);

create index events_key_time on events (key_id, received_at);

-- Takes what no month's partition takes: an event is never lost for want of one.
create table events_elsewhen partition of events default;

-- Use that machines without a network report as files (see src/usage/reports/import_report.ts).
-- runs with 27

-- The units that reports say were used beyond the limit of the month: they make no room and take none. The rows that exist
-- have none, so they are not read: a long lock would stop the service.
alter table usage
  add column over bigint not null default 0,
  add constraint over_not_negative check (over between 0 and 9007199254740991) not valid;

-- The journal of a machine, as far as its reports were imported: each report names the digest of the one before it. An operator
-- can begin another one, which ends the one before.
create table usage_journals (
  id uuid constraint usage_journals_pkey primary key,
  license_id uuid not null constraint journal_has_license references licenses (id),
  -- The keyed hash of the fingerprint, as in `machines`.
  machine bytea not null constraint journal_machine_is_hash check (octet_length(machine) = 32),
  -- The random name that the machine gave it.
  journal bytea not null constraint journal_name_length check (octet_length(journal) = 16),
  last_number bigint not null constraint journal_number_positive check (last_number > 0),
  -- SHA-256.
  last_digest bytea not null constraint journal_digest_length check (octet_length(last_digest) = 32),
  began_at timestamptz not null,
  reported_at timestamptz not null,
  ended_at timestamptz
);

-- A machine has one journal at a time.
create unique index usage_journals_one_open on usage_journals (license_id, machine) where ended_at is null;

create table usage_reports (
  id uuid constraint usage_reports_pkey primary key,
  journal_id uuid not null constraint report_has_journal references usage_journals (id),
  number bigint not null constraint report_number_positive check (number > 0),
  -- SHA-256 of the report: no report is imported twice.
  digest bytea not null
    constraint report_digest_length check (octet_length(digest) = 32)
    constraint usage_reports_digest unique,
  made_at timestamptz not null,
  imported_at timestamptz not null,
  -- The units that the quota counts, and those beyond the limits.
  units bigint not null constraint report_units_not_negative check (units >= 0),
  over bigint not null constraint report_over_not_negative check (over >= 0),
  -- How many days have use, and how many events came along.
  days integer not null,
  events integer not null,
  -- The use of each month before and after, as it was answered.
  months jsonb not null,
  -- What was unusual, such as `revoked`.
  marks text[] not null,
  -- Whether the use per day of all licenses has it.
  is_counted boolean not null default false,
  constraint usage_reports_number unique (journal_id, number)
);

create index usage_reports_uncounted on usage_reports (id) where not is_counted;

-- The report that an event came with; null for an event that a client sent. Use per day has the events of reports by the use of
-- their months.
alter table events add column report_id uuid;

-- The first units of some days: as many as are granted, the earlier days first.
create function first_units(days bigint[], granted bigint) returns bigint[] language sql immutable as $$
  select array_agg(greatest(least(units, granted - units_before), 0) order by day)
    from (select day, units, (sum(units) over (order by day) - units)::bigint as units_before
            from unnest(days) with ordinality as each (units, day)) as days_before
$$;

create function add_days(one bigint[], other bigint[]) returns bigint[] language sql immutable as $$
  select array_agg(coalesce(a, 0) + coalesce(b, 0) order by day)
    from unnest(one, other) with ordinality as each (a, b, day)
$$;

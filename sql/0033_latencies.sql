-- Within how many milliseconds a process answered half of its requests and 95 % of them, since its start. See src/processes.
-- runs with 27

alter table processes
  add column p50_ms double precision,
  add column p95_ms double precision;

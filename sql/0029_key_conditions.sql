-- Lists of keys by what operators ask about them: which licenses use up their quota before the month ends, which have no
-- free place for a machine, and which keys send too many requests. See src/figures and src/keys/too_many_requests.ts.
-- runs with 27

-- The keys whose license uses up its quota before the month ends, if it goes on as in the last seven days.
create table figure_runs_out (
  key_id uuid not null,
  day date not null,
  constraint figure_runs_out_pkey primary key (key_id, day)
);

-- The keys of the licenses whose places for machines are all taken.
create table figure_full (
  key_id uuid not null,
  places integer not null,
  constraint figure_full_pkey primary key (key_id, places)
);

-- The requests of each key that was refused for too many requests, by parts of ten minutes, from its first such refusal
-- on. A part is deleted after two hours. Unlogged, because it is worth nothing after an hour.
create unlogged table too_many_requests (
  key_id uuid not null,
  -- The part begins at a multiple of ten minutes.
  began_at timestamptz not null,
  requests bigint not null,
  -- How many of the requests were refused.
  refused bigint not null,
  constraint too_many_requests_pkey primary key (key_id, began_at)
) with (fillfactor = 80);

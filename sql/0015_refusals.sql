-- Why keys were refused last: a row for each key, code and reason. Written behind, and only for keys that exist.

create table refusals (
  key_id uuid not null constraint refusal_has_key references keys (id),
  -- The code of the answer, such as QUOTA_EXCEEDED.
  code text not null constraint refusal_code_length check (length(code) between 1 and 40),
  -- The reason in the log, such as suspended; empty where the code says it all.
  reason text not null constraint refusal_reason_length check (length(reason) <= 40),
  last_at timestamptz not null,
  count bigint not null constraint refusal_count_positive check (count > 0),
  constraint refusals_pkey primary key (key_id, code, reason)
) with (fillfactor = 80);

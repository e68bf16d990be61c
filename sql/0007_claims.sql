-- Idempotency: which event an Idempotency-Key of an API key stands for. Not partitioned, since it is unique
-- across months. Rows live for 24 hours.

create table claims (
  key_id uuid not null,
  -- SHA-256 of the header's value: what clients put there is nobody's business.
  claim bytea not null constraint claim_length check (length(claim) = 32),
  -- SHA-256 of the event's fields: the same claim with another event is a mistake.
  event_hash bytea not null constraint event_hash_length check (length(event_hash) = 32),
  event_id uuid not null,
  claimed_at timestamptz not null,
  constraint claims_pkey primary key (key_id, claim)
);

-- Rows come in the order of their time: enough to find the old ones, and next to nothing to keep.
create index claims_time on claims using brin (claimed_at) with (pages_per_range = 16);

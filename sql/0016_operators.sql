-- Operators: people who use the console, and tokens for programs. Rows of operators and tokens are never deleted, so
-- that a name in the audit log means one person or one token for ever.

create table operators (
  name text constraint operators_pkey primary key
    constraint operator_name_form check (name ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
  role text not null constraint role_known check (role in ('viewer', 'editor', 'admin')),
  created_at timestamptz not null,
  -- Set when the operator was removed; the name is not used again.
  removed_at timestamptz
);

-- Login codes. Each one begins one session, within ten minutes. Not part of backups.
create table login_codes (
  -- The SHA-256 of the code. The code itself is not stored.
  hash bytea constraint login_codes_pkey primary key constraint code_hash_length check (length(hash) = 32),
  operator text not null constraint code_has_operator references operators (name),
  expires_at timestamptz not null
);

-- Sessions of browsers. Not part of backups.
create table operator_sessions (
  id uuid constraint operator_sessions_pkey primary key,
  -- The SHA-256 of the cookie's value.
  hash bytea not null
    constraint session_hash_unique unique constraint session_hash_length check (length(hash) = 32),
  operator text not null constraint session_has_operator references operators (name),
  created_at timestamptz not null,
  last_seen_at timestamptz not null
);

create index operator_sessions_operator on operator_sessions (operator);

create table tokens (
  id uuid constraint tokens_pkey primary key,
  name text not null constraint token_name_unique unique
    constraint token_name_form check (name ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
  -- The SHA-256 of the token. Renewing a token changes it.
  hash bytea not null constraint token_hash_unique unique constraint token_hash_length check (length(hash) = 32),
  scopes text[] not null constraint token_has_scopes check (cardinality(scopes) between 1 and 32),
  -- Null: every tier.
  tiers text[] constraint token_tiers_known
    check (tiers <@ array['free', 'research', 'commercial', 'enterprise'] and cardinality(tiers) > 0),
  -- Null: both modes.
  mode text constraint token_mode_known check (mode in ('live', 'test')),
  -- The networks from which the token is accepted; null: every address.
  sources text[] constraint token_sources_count check (cardinality(sources) between 1 and 32),
  -- `disabled`: restored from a backup, until an operator resumes it. `revoked` is final.
  state text not null default 'active'
    constraint token_state_known check (state in ('active', 'disabled', 'revoked')),
  -- Who issued it, as in the audit log.
  created_by text not null,
  created_at timestamptz not null,
  renewed_at timestamptz not null,
  expires_at timestamptz,
  -- Exact to the minute.
  last_used_at timestamptz
);

-- The answers to requests with an Idempotency-Key, kept for 24 hours. Not part of backups.
create table idempotent_answers (
  token_id uuid not null constraint answer_has_token references tokens (id),
  -- The SHA-256 of the Idempotency-Key. The key itself seals the answer, so it is not stored.
  key_hash bytea not null constraint answer_key_hash_length check (length(key_hash) = 32),
  -- The SHA-256 of the request: the same key with another request is refused.
  request_digest bytea not null constraint answer_digest_length check (length(request_digest) = 32),
  -- The answer without the API key, which is sealed.
  answer jsonb not null,
  sealed_api_key text not null,
  created_at timestamptz not null,
  constraint idempotent_answers_pkey primary key (token_id, key_hash)
);

create index idempotent_answers_created on idempotent_answers (created_at);

-- How an actor came in: client, command, api or console; the id of the request, and the address it came from.
-- Null for older rows.
alter table audit
  add column door text,
  add column request text,
  add column address text,
  -- The transaction that wrote the row, so that a reader who follows the log misses no late commit. Its own statement
  -- sets the default: a default that comes with the column would be computed for each older row, under a lock.
  add column xid xid8;
alter table audit alter column xid set default pg_current_xact_id();

-- The operator's own name for a license, such as an order number. Compared as bytes.
alter table licenses add column external_id text collate "C"
  constraint external_id_length check (length(external_id) between 1 and 255);

create unique index external_id_unique on licenses (external_id) where external_id is not null;

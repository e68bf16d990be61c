-- Pre-trained models: a name, and under it versions that never change.

create table models (
  id uuid constraint models_pkey primary key,
  name text not null constraint model_name_unique unique constraint model_name_length check (length(name) <= 200),
  -- The account that a custom model belongs to; null for a model for everybody.
  owner_account_id uuid constraint model_has_owner references accounts (id),
  -- The version that the list shows: the one added last. Null when the model was removed from the list.
  listed_version text,
  created_at timestamptz not null,
  changed_xid xid8 not null default pg_current_xact_id()
);

create table model_versions (
  id uuid constraint model_versions_pkey primary key,
  model_id uuid not null constraint version_has_model references models (id),
  version text not null constraint version_length check (length(version) between 1 and 100),
  type text not null,
  paradigm text not null,
  n_features bigint not null constraint n_features_positive check (n_features > 0),
  n_classes bigint not null constraint n_classes_at_least_two check (n_classes > 1),
  size_mb double precision not null constraint size_not_negative check (size_mb >= 0),
  download_url text not null,
  -- SHA-256, 64 lowercase hexadecimal digits.
  checksum text not null constraint checksum_form check (checksum ~ '^[0-9a-f]{64}$'),
  requires_license text not null
    constraint requires_license_known
    check (requires_license in ('free', 'research', 'commercial', 'enterprise')),
  metadata jsonb not null default '{}' constraint metadata_is_object check (jsonb_typeof(metadata) = 'object'),
  created_at timestamptz not null,
  constraint version_unique unique (model_id, version)
);

create trigger note_change before update of name, owner_account_id, listed_version on models
  for each row execute function note_change();

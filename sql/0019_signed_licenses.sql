-- Signed licenses, which clients verify without a network. See src/signed_licenses.

-- The signing key, its successor, and older keys whose licenses may still be in use. Retired keys stay as rows, so that
-- the audit log can be read, but are not published.
create table signing_keys (
  -- The thumbprint of the public key (RFC 7638).
  kid text constraint signing_keys_pkey primary key constraint kid_length check (length(kid) = 43),
  -- The order of the keys. The signing key is the latest that has begun to sign; the next one is its successor.
  generation bigint not null constraint generation_unique unique constraint generation_positive check (generation > 0),
  -- 32 bytes as base64url.
  public_key text not null constraint public_key_length check (length(public_key) = 43),
  -- The private key (PKCS#8), sealed with the root secret.
  sealed text not null,
  created_at timestamptz not null,
  -- Null for the successor.
  signs_from timestamptz,
  -- The time at which the next key began to sign; null for the signing key and its successor.
  signs_until timestamptz,
  retired_at timestamptz
);

-- One row for each key and signing key: the latest license that was signed, and the number of all of them.
create table signed_licenses (
  key_id uuid not null constraint signed_license_has_key references keys (id),
  -- Without a foreign key: a restore can leave the signing keys out.
  kid text not null,
  jti uuid not null,
  -- The latest expiry of all of them.
  expires_at timestamptz not null,
  signed_at timestamptz not null,
  count bigint not null constraint signed_licenses_count_positive check (count > 0),
  constraint signed_licenses_pkey primary key (key_id, kid)
);

create index signed_licenses_kid on signed_licenses (kid, expires_at);

-- The license files that operators exported, one row for each.
create table exported_licenses (
  jti uuid constraint exported_licenses_pkey primary key,
  key_id uuid not null constraint exported_license_has_key references keys (id),
  kid text not null,
  expires_at timestamptz not null,
  exported_at timestamptz not null,
  -- As in the audit log.
  exported_by text not null
);

create index exported_licenses_kid on exported_licenses (kid, expires_at);
create index exported_licenses_key on exported_licenses (key_id);

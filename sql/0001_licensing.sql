-- Who may use the SDK: an account has licenses, a license has keys.
--
-- changed_xid is how other processes learn of a change. It holds the transaction that made it, so that
-- "everything committed since I last looked" is exact: whatever was still running at the last look has a
-- transaction id of at least that look's pg_snapshot_xmin. No clock is involved.

create table accounts (
  id uuid constraint accounts_pkey primary key,
  email text not null
    constraint email_unique unique
    constraint email_lower_case check (email = lower(email collate "C") and length(email) between 3 and 254),
  name text not null constraint name_length check (length(name) between 1 and 200),
  organization text not null default '' constraint organization_length check (length(organization) <= 200),
  created_at timestamptz not null,
  changed_xid xid8 not null default pg_current_xact_id()
);

create table licenses (
  id uuid constraint licenses_pkey primary key,
  account_id uuid not null constraint license_has_account references accounts (id),
  tier text not null
    constraint tier_known check (tier in ('free', 'research', 'commercial', 'enterprise')),
  -- Null: the tier's own limit.
  monthly_limit bigint
    constraint monthly_limit_in_range check (monthly_limit between 0 and 9007199254740991),
  -- 9999-12-31T23:59:59Z for a license that never ends.
  expires_at timestamptz not null,
  created_at timestamptz not null,
  changed_xid xid8 not null default pg_current_xact_id()
);

create table keys (
  id uuid constraint keys_pkey primary key,
  license_id uuid not null constraint key_has_license references licenses (id),
  -- The SHA-256 of the key. The key itself is nowhere.
  hash bytea not null constraint key_hash_unique unique constraint key_hash_length check (length(hash) = 32),
  -- What people recognise it by: prefix and last four characters; only the prefix where the key is unknown.
  hint text not null constraint key_hint_length check (length(hint) <= 40),
  mode text not null constraint key_mode_known check (mode in ('live', 'test')),
  -- "Expired" is no state here: it follows from the clock and can be undone by renewing.
  state text not null default 'active'
    constraint key_state_known check (state in ('active', 'suspended', 'revoked')),
  -- The end of a rotated key, before its license's own.
  own_expires_at timestamptz,
  replaced_by uuid constraint replaced_by_key references keys (id),
  created_at timestamptz not null,
  revoked_at timestamptz constraint revoked_at_when_revoked check ((state = 'revoked') = (revoked_at is not null)),
  -- Written behind, and so never a reason for changed_xid.
  last_used_at timestamptz,
  changed_xid xid8 not null default pg_current_xact_id()
);

create index licenses_account on licenses (account_id);
create index keys_license on keys (license_id);

create index accounts_changed on accounts (changed_xid);
create index licenses_changed on licenses (changed_xid);
create index keys_changed on keys (changed_xid);

-- Whoever changes a row, by hand too, is noticed by every process.
create function note_change() returns trigger language plpgsql as $$
begin
  new.changed_xid := pg_current_xact_id();
  return new;
end
$$;

create trigger note_change before update of email, name, organization on accounts
  for each row execute function note_change();
create trigger note_change before update of account_id, tier, monthly_limit, expires_at on licenses
  for each row execute function note_change();
create trigger note_change before update of license_id, hash, mode, state, own_expires_at, replaced_by on keys
  for each row execute function note_change();

-- Caches know a key by the license that it had.
create function note_move() returns trigger language plpgsql as $$
begin
  update licenses set changed_xid = pg_current_xact_id() where id = old.license_id;
  return null;
end
$$;

create trigger note_move after update of license_id on keys for each row execute function note_move();

-- Events and the audit log name keys and licenses without foreign keys, and no process would notice that a
-- row is gone: what is over is revoked, or expires.
create function refuse_deletion() returns trigger language plpgsql as $$
begin
  raise exception 'Rows of % are never deleted: revoke the key instead', tg_table_name
    using errcode = 'restrict_violation';
end
$$;

create trigger keys_are_kept before delete or truncate on keys
  for each statement execute function refuse_deletion();
create trigger licenses_are_kept before delete or truncate on licenses
  for each statement execute function refuse_deletion();

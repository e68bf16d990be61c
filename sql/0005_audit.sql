-- Who changed what, when and why. Rows are added by the statement that makes the change and never
-- touched again.

create table audit (
  id bigint generated always as identity constraint audit_pkey primary key,
  at timestamptz not null,
  -- Who acted: `http` with the address, or `command` with the operator's user name.
  actor text not null,
  -- What was done, noun and verb: `key.revoke`.
  action text not null,
  account_id uuid,
  license_id uuid,
  key_id uuid,
  before jsonb,
  after jsonb,
  reason text constraint reason_length check (length(reason) <= 2000)
);

create index audit_key on audit (key_id, at);
create index audit_account on audit (account_id, at);
create index audit_at on audit (at);

create function refuse_audit_change() returns trigger language plpgsql as $$
begin
  raise exception 'The audit log only grows: % is refused', lower(tg_op) using errcode = 'restrict_violation';
end
$$;

create trigger audit_only_grows before update or delete or truncate on audit
  for each statement execute function refuse_audit_change();

-- The e-mails that accounts had (see src/licensing/update_account.ts), and licenses that move to another account (see
-- src/licensing/move_license.ts). The rows of the audit log have no e-mail, because a person can be erased from an account, but
-- not from the log. So the log takes both e-mails of a change from here.
-- runs with 27

create table former_emails (
  -- The row of the audit log that notes the change. No foreign key, because such rows are never deleted.
  audit_id bigint constraint former_emails_pkey primary key,
  account_id uuid not null constraint former_email_has_account references accounts (id),
  old_email text not null,
  new_email text not null
);

create index former_emails_account on former_emails (account_id);
create index former_emails_words on former_emails using gin (account_words(old_email, '', ''));

create function erase_former_emails() returns trigger language plpgsql as $$
begin
  delete from former_emails where account_id = new.id;
  return null;
end
$$;

create trigger accounts_erase_former_emails after update of email on accounts
  for each row
  when (is_erased(new))
  execute function erase_former_emails();

-- A license can move to another account, and its machines go along. The accounts are locked first, then the license, then its
-- machines, as everywhere.
create function move_machines() returns trigger language plpgsql as $$
begin
  update machines set account_id = new.account_id where license_id = new.id;
  return null;
end
$$;

create trigger licenses_move_machines after update of account_id on licenses
  for each row
  when (old.account_id <> new.account_id)
  execute function move_machines();

-- Ids of rows of the audit log that no other row ever has (see src/audit/audit_fields.ts): a restored database gives the
-- numbers in `id` again, to other rows. PostgreSQL 15 has no uuidv7().
-- runs with 27

-- The default comes after the column, so that nothing is rewritten and the rows that exist have none.
alter table audit add column unique_id uuid;
alter table audit alter column unique_id set default gen_random_uuid();

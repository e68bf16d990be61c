-- The last backup of this database: one row, so that a missing backup is noticed. See src/backup.
create table last_backup (
  is_only boolean default true constraint last_backup_pkey primary key,
  -- The time of its snapshot.
  taken_at timestamptz not null,
  -- The time of the snapshot of the last one that was read back; null if none was.
  verified_at timestamptz,
  constraint last_backup_is_only check (is_only)
);

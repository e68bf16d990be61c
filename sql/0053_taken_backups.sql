-- When the last 100 backups of this database were taken, so that the page Latency can mark them. `last_backup` has only the
-- last one, and more about it. See src/installation/backup/last_backup.ts.
-- runs with 27

create table taken_backups (
  -- The time of its snapshot.
  at timestamptz constraint taken_backups_pkey primary key
);

-- How many model files the last backup that should have had them could not save. A backup of the tables alone leaves the
-- number as it is; null if there was none but such backups. See src/backup.
alter table last_backup add column missing_models bigint;

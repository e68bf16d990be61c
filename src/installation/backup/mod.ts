/**
 * Backup and restore: one logical format for every installation. A backup of the database inside can be restored into
 * an external database, a backup of an external database into the database inside, and each into a newer schema.
 * `format.ts` describes the file. Owns the tables `last_backup` and `taken_backups`.
 */
export { addBackup, type FolderBackup, type FolderOptions } from "./backup_folder.ts";
export { findEarlierKeys } from "./find_earlier_keys.ts";
export { type Head, installationOf, type MissingModel, type Sums } from "./format.ts";
export { KEEP_RULE } from "./keep_rule.ts";
export { findLastBackup, type LastBackup, listTakenAt, MOST_TAKEN } from "./last_backup.ts";
export { countSavedKeys, type FoundBackup, isWhole, listBackups } from "./list_backups.ts";
export type { Progress } from "./progress.ts";
export { type ProvenBackup, verifyBackup } from "./read_backup.ts";
export { checkBackupSchema, type Restored, type RestoreOptions, restoreBackup } from "./restore_backup.ts";
export { type Backup, type BackupOptions, selectBackupSource, writeBackup } from "./write_backup.ts";

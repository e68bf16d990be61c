/**
 * Backup and restore: one logical format for every installation, from the database inside to an external
 * one and back, and from an older schema to a newer. The file is described in `format.ts`.
 */
export { checkPlace, FileFailure, writeWhole } from "./_files.ts";
export { FORMAT_VERSION, type Head, type Sums, type TableSum } from "./format.ts";
export { type ProvenBackup, verifyBackup } from "./read_backup.ts";
export { checkBackupSchema, type RestoreOptions, restoreBackup } from "./restore_backup.ts";
export {
  type Backup,
  type BackupOptions,
  type Progress,
  type Watch,
  writeBackup,
} from "./write_backup.ts";

/**
 * The database: statements with a deadline, a pool that recovers from lost connections, migrations, and the
 * PostgreSQL inside (`embedded/`). The only room that imports the driver.
 */

export { copyIn, copyOut } from "./copy.ts";
export { countRows, MOST_COUNTED } from "./count_rows.ts";
export { type Database, openDatabase } from "./database.ts";
export { type DatabaseSession, openSession } from "./database_session.ts";
export { parseDatabaseTls } from "./database_tls.ts";
export {
  type DatabaseAddress,
  maskDatabaseUrl,
  nameOfDatabase,
  parseDatabaseUrl,
  toDatabaseAddress,
} from "./database_url.ts";
export { COUNTS_RULE, createDifferenceWriter, type Gain } from "./difference_writer.ts";
export { tryDisk } from "./disk_trial.ts";
export {
  constraintOf,
  DatabaseUnavailable,
  isDataError,
  isLockTimeout,
  isStopped,
  refusedWrite,
} from "./errors.ts";
export { explainFailure, renderFailureCause } from "./explain_failure.ts";
export { createLookUpQueue, type LookUpOptions, type LookUpStats } from "./look_up_queue.ts";
export {
  checkSchema,
  checksumOf,
  findForeignMigration,
  migrate,
  migrationStatus,
  migrations,
} from "./migrations.ts";
export type { Migration } from "./read_migrations.ts";
export { type PagesOptions, readPages } from "./read_pages.ts";
export { selectMonths } from "./select_months.ts";
export { type Fragment, type PendingRows, type Sql, toTextArray } from "./sql.ts";
export { isStorableJson, isStorableText, lineOf, metadataField } from "./storable.ts";
export { createWaitingRows, createWriteBehind, type WriteBehind } from "./write_behind.ts";

/**
 * The database: statements with a deadline, a pool that mends itself, migrations, and the PostgreSQL
 * that comes inside (`embedded/`). The only room that imports the driver.
 */
export { type Database, type DatabaseAddress, openDatabase, type QueryOptions } from "./database.ts";
export { constraintOf, DatabaseUnavailable, isDataError, isDuplicate } from "./errors.ts";
export { type Migration, migrations } from "./migration_files.ts";
export {
  type AppliedMigration,
  checkSchema,
  type MigrationStatus,
  migrate,
  migrationStatus,
} from "./migrations.ts";
export { openSession, type Session } from "./session.ts";
export type { Fragment, Sql } from "./sql.ts";
export { toTextArray } from "./sql.ts";

import { type Database, DatabaseUnavailable, type PendingRows, type Sql } from "../database/mod.ts";

/** The cache of this process, which answers clients. */
export interface LicenseCache {
  forgetLicense(licenseUuid: string): void;
  forgetAll(): void;
}

/**
 * Changes licenses and their keys. The functions that change them take this instead of a database, so that no caller
 * has to remember the cache: before a change returns, the cache of this process has forgotten the changed licenses. The
 * pulse tells the other processes within a second.
 */
export type LicenseChanges = ReturnType<typeof createLicenseChanges>;

/** Creates the changes of a process. A process without a cache, such as a command, leaves `cache` out. */
export function createLicenseChanges(database: Database, cache?: LicenseCache) {
  /** Runs the statement of a change; `forget` makes the cache forget what it may have changed. */
  async function run<Row extends object>(
    build: (sql: Sql) => PendingRows,
    forget: (rows?: readonly Row[]) => void,
  ): Promise<Row[]> {
    try {
      const rows = await database.query<Row>(build);
      forget(rows);
      return rows;
    } catch (error) {
      // The outcome is unknown.
      if (error instanceof DatabaseUnavailable) forget();
      throw error;
    }
  }

  return {
    /** For what has to be read besides. */
    database,
    /**
     * Runs the statement of a change, which returns the licenses that it changed. If the outcome is unknown
     * (`DatabaseUnavailable`), the cache forgets `licenseUuid`, or everything if that is not given.
     */
    async change<Row extends { readonly licenseUuid: string }>(
      build: (sql: Sql) => PendingRows,
      { licenseUuid }: { readonly licenseUuid?: string | undefined } = {},
    ) {
      return await run<Row>(build, (rows) => {
        const changed =
          rows?.map((row) => row.licenseUuid) ?? (licenseUuid === undefined ? [] : [licenseUuid]);
        if (rows === undefined && licenseUuid === undefined) cache?.forgetAll();
        else for (const license of changed) cache?.forgetLicense(license);
      });
    },
    /** Runs the statement of a change that all licenses may notice. */
    changeAll: <Row extends object>(build: (sql: Sql) => PendingRows) =>
      run<Row>(build, () => cache?.forgetAll()),
  };
}

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
      try {
        const rows = await database.query<Row>(build);
        for (const row of rows) cache?.forgetLicense(row.licenseUuid);
        return rows;
      } catch (error) {
        if (!(error instanceof DatabaseUnavailable)) throw error;
        if (licenseUuid === undefined) cache?.forgetAll();
        else cache?.forgetLicense(licenseUuid);
        throw error;
      }
    },
  };
}

import { createAuditWaits } from "../audit/mod.ts";
import type { Platform } from "../base/platform/mod.ts";
import { type Database, type DatabaseAddress, openDatabase } from "../database/mod.ts";
import type { KeyDirectory } from "../licensing/keys/mod.ts";
import { createLicenseChanges } from "../licensing/mod.ts";
import type { LicenseSigner } from "../licensing/signed_licenses/mod.ts";
import { createUploads, type UploadOptions } from "../models/mod.ts";
import { createReportImports, openReportDatabase, type TextBounds } from "../usage/mod.ts";
import type { AdminAppOptions } from "./frame/options.ts";
import { createCsvInFlight } from "./frame/stream_csv.ts";
import { createTurns, TURNS } from "./frame/turns.ts";
import { createBundlesInFlight } from "./keys/download_bundle.ts";

export interface OpenAdminAppOptions
  extends Omit<
      AdminAppOptions,
      | "database"
      | "licenseChanges"
      | "licenseSigner"
      | "auditWaits"
      | "csvInFlight"
      | "bundlesInFlight"
      | "modelsPlace"
      | "collectGarbage"
      | "uploads"
      | "reportImports"
    >,
    UploadOptions {
  readonly directory: KeyDirectory;
  readonly createSigner: (database: Database) => LicenseSigner;
  readonly platform: Pick<Platform, "collectGarbage">;
  readonly databaseAddress: DatabaseAddress;
  readonly textBounds: TextBounds;
}

/** Creates the function that lets one report be imported at a time, whoever sends it. */
export function createReportTurns() {
  const turns = createTurns({ ...TURNS, atOnce: 1 });
  return (work: () => Promise<void>) => turns("reports", work);
}

/** Longer than the deadline of a client's statement: operators can wait for a list. */
const POOL = { maxConnections: 2, deadlineMs: 2_000 };

/**
 * Opens the pool of operators and builds the app that uses it. `auditWaits.end` answers requests that wait. Call `close`
 * when no request is left.
 *
 * The statements of operators have a pool of their own. In the clients' pool, a slow list would take a connection from the
 * clients. If it missed its deadline, the whole pool would be replaced.
 */
export async function openAdminApp(options: OpenAdminAppOptions) {
  const { platform, databaseAddress, clock, log } = options;
  const database = openDatabase(databaseAddress, { clock, log, ...POOL });
  const auditWaits = createAuditWaits({ database, log });
  const reportDatabase = openReportDatabase(databaseAddress, { clock, log });
  // Loaded only now: a service without this listener saves the memory of the API and of every page.
  const { createAdminApp } = await import("./app.ts");
  const licenseSigner = options.createSigner(database);
  const { fetch: answer } = createAdminApp({
    ...options,
    database,
    licenseChanges: createLicenseChanges(database, options.directory),
    licenseSigner,
    auditWaits,
    csvInFlight: createCsvInFlight(),
    bundlesInFlight: createBundlesInFlight(),
    modelsPlace: options,
    collectGarbage: platform.collectGarbage,
    uploads: createUploads(options),
    reportImports: createReportImports({
      ...options,
      licenseSigner,
      database: reportDatabase,
      inTurn: createReportTurns(),
    }),
  });
  return {
    answer,
    auditWaits,
    close: () => Promise.all([database.close(), reportDatabase.close()]),
  };
}

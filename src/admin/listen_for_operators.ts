import { isAdminTls, isLoopback, originOf } from "../base/listener_url.ts";
import type { ListenOptions, Platform, TlsPair } from "../base/platform/mod.ts";
import { isRefusal, type Refusal } from "../base/refusal.ts";
import { type Database, type DatabaseAddress, openDatabase } from "../database/mod.ts";
import type { KeyDirectory } from "../licensing/keys/mod.ts";
import { createLicenseChanges } from "../licensing/mod.ts";
import type { LicenseSigner } from "../licensing/signed_licenses/mod.ts";
import { createUploads, type UploadOptions } from "../models/mod.ts";
import { listenOrRefuse } from "../wire/mod.ts";
import type { AdminAppOptions } from "./frame/options.ts";
import { createCsvInFlight } from "./frame/stream_csv.ts";

export interface OperatorsListenerOptions
  extends Pick<ListenOptions, "maxBodyBytes" | "idleTimeoutSeconds">,
    Omit<
      AdminAppOptions,
      "database" | "licenseChanges" | "licenseSigner" | "csvInFlight" | "uploads" | "isLoopback" | "isTls"
    >,
    UploadOptions {
  readonly directory: KeyDirectory;
  readonly createSigner: (database: Database) => LicenseSigner;
  readonly platform: Platform;
  readonly databaseAddress: DatabaseAddress;
  readonly tls: TlsPair | undefined;
}

/** Longer than the deadline of a client's statement: operators can wait for a list. */
const POOL = { maxConnections: 2, deadlineMs: 2_000 };

/**
 * Listens for requests of operators at the first of the addresses that can be used; undefined without an address.
 *
 * Their statements have a pool of their own. In the clients' pool, a slow list would take a connection from the
 * clients. If it missed its deadline, the whole pool would be replaced.
 */
export async function listenForOperators(
  addresses: readonly Pick<ListenOptions, "host" | "port">[],
  options: OperatorsListenerOptions,
) {
  let refusal: Refusal | undefined;
  for (const address of addresses) {
    const listener = await listenAt(address, options);
    if (!isRefusal(listener)) return listener;
    refusal = listener;
  }
  return refusal;
}

async function listenAt(
  { host, port }: Pick<ListenOptions, "host" | "port">,
  options: OperatorsListenerOptions,
) {
  const { platform, databaseAddress, clock, log, maxBodyBytes, idleTimeoutSeconds } = options;
  const tls = isAdminTls({ host }, options) ? options.tls : undefined;
  const database = openDatabase(databaseAddress, { clock, log, ...POOL });
  // Loaded only now: a service without this listener saves the memory of the API and of every page.
  const { createAdminApp } = await import("./app.ts");
  const app = createAdminApp({
    ...options,
    database,
    licenseChanges: createLicenseChanges(database, options.directory),
    licenseSigner: options.createSigner(database),
    csvInFlight: createCsvInFlight(),
    collectGarbage: platform.collectGarbage,
    uploads: createUploads(options),
    isLoopback: isLoopback(host),
    isTls: tls !== undefined,
  });
  const listener = await listenOrRefuse(platform, {
    host,
    port,
    maxBodyBytes,
    idleTimeoutSeconds,
    answer: app.fetch,
    takesUploads: true,
    ...(tls && { tls }),
    remedy: "; choose another with --admin-listen",
  });
  if (isRefusal(listener)) {
    await database.close();
    return listener;
  }
  return {
    ...listener,
    /** Its own address, such as `http://127.0.0.1:8081`. */
    origin: originOf(listener, tls !== undefined),
    async stop(deadlineMs: number): Promise<void> {
      await listener.stop(deadlineMs);
      await database.close();
    },
  };
}

/**
 * The service as a whole: its parts, and the order in which they start. They stop in the reverse order. Only this file
 * knows all parts.
 */

import { hostname } from "node:os";
import { activityUpkeep, createActivityWriter } from "../activity/mod.ts";
import { listenForOperators } from "../admin/mod.ts";
import { monthOf } from "../calendar.ts";
import type { Clock } from "../clock.ts";
import { type Config, type ListenAddress, refuseAdminListener } from "../config/mod.ts";
import { type Database, migrate, migrations, openDatabase } from "../database/mod.ts";
import { examineBriefly } from "../doctor/mod.ts";
import { originOf } from "../endpoints.ts";
import { createFigureComputer } from "../figures/mod.ts";
import { createApp, createMetricsPage, createRequestMetrics, IDLE_TIMEOUT_SECONDS } from "../http/mod.ts";
import { newUuid } from "../ids.ts";
import {
  type Installation,
  isSealed,
  openInstallation,
  openSecrets,
  proveSecret,
} from "../installation/mod.ts";
import { createKeyDirectory, type KeyDirectory, watchPulse } from "../keys/mod.ts";
import { createLimiter } from "../limits/mod.ts";
import type { Log } from "../log.ts";
import { createFileDirectory, modelsFolderOf } from "../models/mod.ts";
import { createFailedLogins, operatorsUpkeep } from "../operators/mod.ts";
import type { Platform } from "../platform/mod.ts";
import { createPresence } from "../processes/mod.ts";
import { isRefusal, type Refusal, refuse } from "../refusal.ts";
import { createGitHubAppSource, createTokenSource, openGitHubApp } from "../repository_token/mod.ts";
import type { Secrets } from "../secrets/mod.ts";
import { createLicenseSigner, createPublishedKeys, prepareSigningKeys } from "../signed_licenses/mod.ts";
import { type Certificate, createCertificate, readTlsIdentity } from "../tls/mod.ts";
import { createUpkeep } from "../upkeep/mod.ts";
import { createEventWriter, createUsageUpkeep, type EventGathering, watchWrites } from "../usage/mod.ts";
import { listenOrRefuse } from "../wire/mod.ts";
import { createStopOrder, type StopOrder } from "./stop_order.ts";

export interface ServiceOptions {
  readonly config: Config;
  /** Where clients reach a service without a public address, for links and texts: a demo. Signed licenses do not name it. */
  readonly reachedAt?: string | undefined;
  readonly platform: Platform;
  readonly clock: Clock;
  readonly log: Log;
  /** An installation that is already open; by default the settings say which one to open. */
  readonly installation?: Installation;
  /** Called after the stores are open: a demo adds its data. */
  readonly onOpened?: (installation: OpenInstallation) => void;
  /**
   * Finds addresses for operators if the settings name none, as for a demo. The service listens at the first one that
   * can be used.
   */
  readonly findAdminAddresses?: (database: Database) => Promise<readonly ListenAddress[]>;
  /** How events are gathered into commits: for a benchmark, not for operators. */
  readonly eventGathering?: EventGathering;
}

/** The stores of a service, for the preparation of a demo. */
export interface OpenInstallation {
  readonly installation: Installation;
  readonly database: Database;
  readonly secrets: Secrets;
}

export interface Service {
  readonly host: string;
  readonly port: number;
  /** The address for clients on this machine, such as `https://127.0.0.1:8443`. */
  readonly url: string;
  /** The listener for metrics, if there is one. */
  readonly metrics: { readonly host: string; readonly port: number } | undefined;
  /** The listener for operators, if there is one: its own address, and the address under which they reach it. */
  readonly admin:
    | { readonly host: string; readonly port: number; readonly origin: string; readonly url: string }
    | undefined;
  /** Where the data is, in words. */
  readonly place: string;
  readonly database: Database;
  readonly directory: KeyDirectory;
  /**
   * Reads the certificate again and uses it for new connections. If it cannot be used, the old one stays. The log has
   * the outcome. Undefined without TLS.
   */
  readonly reload: (() => Promise<void>) | undefined;
  /** False if the pulse neither succeeds nor fails any more. If the database does not answer, the pulse fails. */
  isAlive(): boolean;
  readonly stop: StopOrder["stop"];
}

/** The limit for the last two writes: the last use of keys, and the last minute of activity. */
const LAST_WORDS_MS = 1_000;
/** The limit for stopping parts after a failed start. No request is in flight, so the database may use most of it. */
const ABANDON_MS = 9_000;
/**
 * The limits of every listener. The runtime must refuse no body, because its refusal is not JSON. Our own code reads at
 * most 64 KiB.
 */
const LIMITS = { maxBodyBytes: Number.MAX_SAFE_INTEGER, idleTimeoutSeconds: IDLE_TIMEOUT_SECONDS };

/** Starts the service. Refuses, with a sentence for the operator, if something must be fixed first. */
export async function startService(options: ServiceOptions): Promise<Service | Refusal> {
  const order = createStopOrder(options);
  const abandon = () =>
    order
      .stop(ABANDON_MS)
      .catch((error) => options.log.warn("A part did not close", { reason: String(error) }));
  try {
    const service = await startStages(options, order);
    if (isRefusal(service)) await abandon();
    return service;
  } catch (error) {
    await abandon();
    throw error;
  }
}

async function startStages(options: ServiceOptions, order: StopOrder): Promise<Service | Refusal> {
  const stores = await openStores(options, order);
  if (isRefusal(stores)) return stores;
  const parts = await startParts(options, { stores, order });
  const listeners = await listen(options, { stores, parts, order });
  if (isRefusal(listeners)) return listeners;
  const { listener, admin, metrics, certificate } = listeners;
  // Begun now, so that the first request for figures finds some.
  if (admin !== undefined || metrics !== undefined) parts.figures.demand();
  return {
    host: listener.host,
    port: listener.port,
    url: originOf(listener, stores.tls !== undefined),
    admin: admin && {
      host: admin.host,
      port: admin.port,
      origin: admin.origin,
      url: options.config.adminUrl ?? admin.origin,
    },
    metrics: metrics && { host: metrics.host, port: metrics.port },
    place: stores.installation.place,
    database: parts.database,
    directory: parts.directory,
    reload: certificate?.reload,
    isAlive: watchPulse(parts.directory, options.clock),
    stop: order.stop,
  };
}

type Stores = Exclude<Awaited<ReturnType<typeof openStores>>, Refusal>;
type Parts = Awaited<ReturnType<typeof startParts>>;

/** Reads the App's key and the certificate, and opens the database and the root secret. */
async function openStores(options: ServiceOptions, order: StopOrder) {
  const { config, clock, log } = options;
  const close = (installation: Installation) =>
    order.add({ stop: (deadlineMs) => installation.close(deadlineMs) }, "own");
  if (options.installation !== undefined) close(options.installation);
  // Checked first: a wrong setting must not leave a new database behind.
  const unsafe = refuseAdminListener(config);
  if (unsafe !== undefined) return unsafe;
  const app = config.gitHubApp && openGitHubApp(config.gitHubApp);
  if (isRefusal(app)) return app;
  const tls = config.tls && readTlsIdentity(config.tls);
  if (isRefusal(tls)) return tls;
  const installation =
    options.installation ?? (await openInstallation({ ...options, holder: "serve", create: true }));
  if (isRefusal(installation)) return installation;
  if (options.installation === undefined) close(installation);

  const migrated = await migrate(installation.address, migrations, { log });
  if (isRefusal(migrated)) return migrated;
  const schema = migrated.applied.at(-1)?.name;
  if (schema !== undefined)
    log.info("Migrated the database", { schema, migrations: migrated.applied.length });
  const pool = openDatabase(installation.address, { clock, log });
  order.add({ stop: () => pool.close() });
  const secret = openSecrets(config, { create: true, isSealed: await isSealed(pool) });
  if (isRefusal(secret)) return secret;
  const { secrets } = secret;
  const wrongSecret = await proveSecret(pool, secrets, clock.now());
  if (wrongSecret !== undefined) {
    secret.forget();
    return refuse("INVALID_REQUEST", wrongSecret);
  }
  await prepareSigningKeys(pool, { secrets, now: clock.now(), log });
  options.onOpened?.({ installation, database: pool, secrets });
  const pulseDatabase = openDatabase(installation.address, { clock, log, maxConnections: 1 });
  order.add({ stop: () => pulseDatabase.close() });
  return { app, tls, installation, pool, pulseDatabase, secrets };
}

/** Creates the parts, and starts the parts that run in the background. */
async function startParts(
  { config, clock, log, eventGathering }: ServiceOptions,
  { stores, order }: { readonly stores: Stores; readonly order: StopOrder },
) {
  const processUuid = newUuid();
  const { app, pool, pulseDatabase, secrets } = stores;
  const writes = watchWrites({ database: pool, clock, log, processUuid });
  const { database } = writes;
  order.add(writes);
  const directory = createKeyDirectory({ database, pulseDatabase, clock, log, processUuid });
  await order.start(directory, LAST_WORDS_MS);
  const requestMetrics = createRequestMetrics();
  // Started before the listeners, so it writes its last minute after the last request is answered.
  await order.start(createActivityWriter({ database, clock, read: requestMetrics.answers }), LAST_WORDS_MS);
  const failedLogins = createFailedLogins({ database, clock });
  await order.start(failedLogins, LAST_WORDS_MS);
  const { address } = stores.installation;
  const usageUpkeep = createUsageUpkeep({ keptMonths: config.eventsKeptMonths });
  const tasks = [...usageUpkeep.tasks, operatorsUpkeep, activityUpkeep];
  const upkeep = createUpkeep({ address, clock, log, tasks });
  await order.start(upkeep);
  const figures = createFigureComputer({ address, clock, log });
  order.add(figures);
  const events = createEventWriter({
    database,
    clock,
    log,
    processUuid,
    // The cached keys get the new counts before the events are answered.
    onCharged: ({ licenseUuid, used }, receivedAtMs) =>
      directory.updateUsedCount(licenseUuid, { monthIndex: monthOf(receivedAtMs).index, used }),
    onUnknown: directory.distrustLicense,
    ...eventGathering,
  });
  const minted = app && createGitHubAppSource({ app, clock, log });
  if (minted !== undefined) order.add(minted);
  return {
    processUuid,
    upkeep,
    usageUpkeep,
    figures,
    writes,
    database,
    directory,
    events,
    minted,
    failedLogins,
    tokens: minted ?? createTokenSource({ database, secrets, clock }),
    limiter: createLimiter(config.limits),
    requestMetrics,
  };
}

/** Listens for requests of operators, for metrics, and for requests of clients. */
async function listen(
  { config, reachedAt, platform, clock, log, findAdminAddresses }: ServiceOptions,
  { stores, parts, order }: { readonly stores: Stores; readonly parts: Parts; readonly order: StopOrder },
) {
  const { tls, secrets } = stores;
  const { isStopping } = order;
  const { adminListen, dataDir, host, port } = config;
  let certificate: Certificate | undefined;
  const certificateExpiresAt = () => certificate?.expiresAt() ?? tls?.expiresAt;
  const publicUrl = config.publicUrl ?? reachedAt;
  const createSigner = (database: Database) => createLicenseSigner({ ...config, database, secrets });
  const addresses = adminListen ? [adminListen] : await findAdminAddresses?.(stores.pool);
  const admin = await listenForOperators(addresses ?? [], {
    ...config,
    ...LIMITS,
    publicUrl,
    createSigner,
    platform,
    clock,
    log,
    secrets,
    directory: parts.directory,
    processUuid: parts.processUuid,
    databaseAddress: stores.installation.address,
    tls,
    certificateExpiresAt,
    isStopping,
    demandFigures: parts.figures.demand,
    noteFailedLogin: parts.failedLogins.note,
    examine: (database) => examineBriefly({ ...stores.installation, config, clock, database }),
  });
  if (isRefusal(admin)) return admin;
  if (admin !== undefined) order.add(admin, "drain");
  const metrics =
    config.metricsListen &&
    (await listenOrRefuse(platform, {
      ...config.metricsListen,
      ...LIMITS,
      answer: createMetricsPage({
        ...parts,
        ...config.metricsListen,
        isStopping,
        tokens: parts.minted,
        dataDir,
        clock,
        certificateExpiresAt,
      }),
      remedy: "; choose another with --metrics-listen",
    }));
  if (isRefusal(metrics)) return metrics;
  if (metrics !== undefined) order.add(metrics);
  // Started after the metrics, so that the metrics show the queue until its last event is committed.
  order.add(parts.events, "drain");
  const { fetch: answer } = createApp({
    ...config,
    ...parts,
    publicUrl,
    isStopping,
    clock,
    log,
    files: createFileDirectory({ database: parts.database, clock }),
    modelsFolder: modelsFolderOf(dataDir),
    fileBody: platform.fileBody,
    sha256: platform.sha256,
    linkSigner: secrets.signer("download-link"),
    licenseSigner: createSigner(parts.database),
    publishedKeys: createPublishedKeys({ database: parts.database, clock }),
  });
  const listener = await listenOrRefuse(platform, { host, port, ...LIMITS, answer, ...(tls && { tls }) });
  if (isRefusal(listener)) return listener;
  order.add(listener, "drain");
  const me = { uuid: parts.processUuid, host: hostname(), address: originOf(listener, !!tls) };
  await order.start(createPresence({ address: stores.installation.address, process: me, clock, log }));
  // The listener for operators may speak http beside a certificate.
  const listeners = admin?.renewTls === undefined ? [listener] : [listener, admin];
  certificate = tls && config.tls && createCertificate(tls, { files: config.tls, listeners, clock, log });
  if (certificate !== undefined) await order.start(certificate);
  return { listener, admin, metrics, certificate };
}

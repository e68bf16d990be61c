import { hostname } from "node:os";
import { listenForOperators } from "../admin/mod.ts";
import { originOf } from "../base/listener_url.ts";
import { isRefusal } from "../base/refusal.ts";
import { type Certificate, createCertificate } from "../base/tls/mod.ts";
import { createApp, createMetricsPage, IDLE_TIMEOUT_SECONDS } from "../clients/mod.ts";
import type { Database } from "../database/mod.ts";
import { createPresence } from "../database/processes/mod.ts";
import { examineBriefly } from "../installation/doctor/mod.ts";
import { createHeartbeats, createMachineNames } from "../licensing/machines/mod.ts";
import { createLicenseSigner, createPublishedKeys } from "../licensing/signed_licenses/mod.ts";
import { createFileDirectory, markHost } from "../models/mod.ts";
import { listenOrRefuse } from "../wire/mod.ts";
import type { Stores } from "./open_stores.ts";
import type { ServiceOptions } from "./service.ts";
import { LAST_WRITE_MS, type Parts } from "./start_parts.ts";
import type { StopOrder } from "./stop_order.ts";

/**
 * The limits of every listener. The runtime must refuse no body, because its refusal is not JSON. Our own code reads at
 * most 64 KiB.
 */
const LIMITS = { maxBodyBytes: Number.MAX_SAFE_INTEGER, idleTimeoutSeconds: IDLE_TIMEOUT_SECONDS };

/** Listens for requests of operators, for metrics, and for requests of clients. */
export async function listen(
  { config, reachedAt, platform, clock, log, findAdminAddresses }: ServiceOptions,
  { stores, parts, order }: { readonly stores: Stores; readonly parts: Parts; readonly order: StopOrder },
) {
  const { tls, secrets } = stores;
  const { isStopping } = order;
  const { adminListen, dataDir, host, port } = config;
  let certificate: Certificate | undefined;
  const certificateExpiresAt = () => certificate?.expiresAt() ?? tls?.expiresAt;
  parts.certificate.expiresAt = certificateExpiresAt;
  const publicUrl = config.publicUrl ?? reachedAt;
  const createSigner = (database: Database) =>
    createLicenseSigner({ ...config, database, cache: parts.directory, secrets });
  const addresses = adminListen ? [adminListen] : await findAdminAddresses?.(stores.pool);
  const admin = await listenForOperators(addresses ?? [], {
    ...config,
    ...LIMITS,
    publicUrl,
    createSigner,
    provider: stores.provider,
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
        auditWaits: admin?.auditWaits,
        dataDir,
        backupOverdueHours: config.backupOverdueHours,
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
    dataFault: stores.installation.dataFault?.sentence,
    clock,
    log,
    files: createFileDirectory(parts.database, clock),
    servedFiles: parts.servedFiles,
    fileBody: platform.fileBody,
    sha256: platform.sha256,
    linkSigner: secrets.signer("download-link"),
    holderSigner: secrets.signer("model-cache"),
    heartbeats: createHeartbeats(parts.database, clock),
    nameMachine: createMachineNames(secrets),
    licenseSigner: createSigner(parts.database),
    publishedKeys: createPublishedKeys(parts.database, clock),
  });
  const listener = await listenOrRefuse(platform, {
    host,
    port,
    ...LIMITS,
    answer,
    ...(tls && { tls }),
    remedy: "; choose another with --host or --port",
  });
  if (isRefusal(listener)) return listener;
  order.add(listener, "drain");
  stores.installation.dataFault?.report((sentence) => log.error(`The service is not healthy: ${sentence}`));
  const { rateLimits } = config;
  // With the PostgreSQL inside, no other host serves.
  if (config.databaseUrl !== undefined) void markHost(config);
  const me = { uuid: parts.processUuid, host: hostname(), address: originOf(listener, !!tls), rateLimits };
  const { latency } = parts.requestMetrics;
  await order.start(
    createPresence({ address: stores.installation.address, process: me, latency, clock, log }),
    LAST_WRITE_MS,
  );
  // The listener for operators may speak http beside a certificate.
  const listeners = admin?.renewTls === undefined ? [listener] : [listener, admin];
  certificate = tls && config.tls && createCertificate(tls, { files: config.tls, listeners, clock, log });
  if (certificate !== undefined) await order.start(certificate);
  return { listener, admin, metrics, certificate };
}

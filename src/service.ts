/**
 * The service as a whole: which parts there are, the order in which they start, and the order in which
 * they stop. The only place that knows them all.
 */

import { monthOf } from "./calendar.ts";
import type { Clock } from "./clock.ts";
import type { Config } from "./config/mod.ts";
import { type Database, migrate, migrations, openDatabase } from "./database/mod.ts";
import { originOf } from "./endpoints.ts";
import { createApp, createMetricsPage, createRequestMetrics, listenForMetrics } from "./http/mod.ts";
import { newUuid } from "./ids.ts";
import {
  type Installation,
  isSealed,
  openInstallation,
  openSecrets,
  proveSecret,
} from "./installation/mod.ts";
import { createKeyDirectory, type KeyDirectory } from "./keys/mod.ts";
import { createLimiter } from "./limits/mod.ts";
import type { Log } from "./log.ts";
import { createFileDirectory, modelsFolderOf } from "./models/mod.ts";
import type { Listener, Platform } from "./platform/mod.ts";
import { isRefusal, type Refusal, refuse } from "./refusal.ts";
import {
  createGitHubAppSource,
  createTokenSource,
  type GitHubApp,
  openGitHubApp,
} from "./repository_token/mod.ts";
import type { Secrets } from "./secrets/mod.ts";
import { reasonOf } from "./system_error.ts";
import { createCertificate, readTlsIdentity, type TlsIdentity } from "./tls/mod.ts";
import { createEventWriter, createUpkeep, type EventGathering, watchWrites } from "./usage/mod.ts";

export interface ServiceOptions {
  readonly config: Config;
  readonly platform: Platform;
  readonly clock: Clock;
  readonly log: Log;
  /** Where it stands, when that is open already; by default it is opened by the settings. */
  readonly installation?: Installation;
  /** Told what the service stands on, once that is open: a demo fills it. */
  readonly onOpened?: (installation: OpenInstallation) => void;
  /** How events are gathered into commits: for a benchmark, not for operators. */
  readonly eventGathering?: EventGathering;
}

/** What a service stands on, for those who prepare it. */
export interface OpenInstallation {
  readonly installation: Installation;
  readonly database: Database;
  readonly secrets: Secrets;
}

export interface Service {
  readonly host: string;
  readonly port: number;
  /** Where clients on this machine find it, such as `https://127.0.0.1:8443`. */
  readonly url: string;
  /** Where metrics are served, if anywhere. */
  readonly metrics: { readonly host: string; readonly port: number } | undefined;
  /** Where the data is, for people. */
  readonly place: string;
  readonly database: Database;
  readonly directory: KeyDirectory;
  /**
   * Reads the certificate again and shows it to new connections. Where it cannot be used, the one before
   * stays; either way the log says so. Undefined where there is nothing to be read again.
   */
  readonly reload: (() => Promise<void>) | undefined;
  /** False where the pulse neither succeeds nor fails any more: an absent database is no reason. */
  isAlive(): boolean;
  /**
   * Stops in order: health says so, requests are still taken for the grace, those in flight finish, queued
   * events are committed, the database stops. What is not done in time is cut off, so that all of it takes
   * no longer than the deadline; what was committed stays committed. Called again, it hurries.
   */
  stop(deadlineMs: number, options?: { readonly graceMs?: number }): Promise<void>;
}

/** Of a stop's time after the grace: how much requests and queued events get at most. */
const DRAIN_SHARE = 0.45;
/** The same for ending the database by force, which its orderly stop must leave: it takes 4 s at most. */
const FORCE_SHARE = 0.45;
const MAX_FORCE_MS = 4_000;
/** A pulse is felt four times a second and given up after 900 ms. */
const STUCK_MS = 10_000;
/** None by the runtime, whose refusal has no JSON: ours reads at most 64 KiB and drops the rest unread. */
const MAX_BODY_BYTES = Number.MAX_SAFE_INTEGER;
const IDLE_TIMEOUT_SECONDS = 30;

/** Starts the service; refuses, with a sentence for the operator, what must be mended first. */
export async function startService(options: ServiceOptions): Promise<Service | Refusal> {
  // Looked at first: a key that cannot be used must not leave a database behind.
  const app = options.config.gitHubApp && openGitHubApp(options.config.gitHubApp);
  if (isRefusal(app)) {
    await options.installation?.close(5_000);
    return app;
  }
  const tls = options.config.tls && readTlsIdentity(options.config.tls);
  if (isRefusal(tls)) {
    await options.installation?.close(5_000);
    return tls;
  }
  const installation =
    options.installation ?? (await openInstallation({ ...options, holder: "serve", create: true }));
  if (isRefusal(installation)) return installation;
  const opened: { close: () => Promise<void> }[] = [{ close: () => installation.close(5_000) }];
  const abandon = async () => {
    // Whatever one of them meets, the others are closed: the database above all.
    for (const part of opened.reverse()) {
      await part
        .close()
        .catch((error) => options.log.warn("A part did not close", { reason: String(error) }));
    }
  };
  try {
    const service = await startOn(installation, { ...options, app, tls }, opened);
    if (isRefusal(service)) await abandon();
    return service;
  } catch (error) {
    await abandon();
    throw error;
  }
}

interface StartOptions extends ServiceOptions {
  readonly app: GitHubApp | undefined;
  readonly tls: TlsIdentity | undefined;
}

async function startOn(
  installation: Installation,
  { config, platform, clock, log, onOpened, eventGathering, app, tls }: StartOptions,
  opened: { close: () => Promise<void> }[],
): Promise<Service | Refusal> {
  const migrated = await migrate(installation.address, migrations, { log });
  if (isRefusal(migrated)) return migrated;
  for (const migration of migrated.applied) log.info("Applied a migration", { name: migration.name });

  const pool = openDatabase(installation.address, { clock, log });
  opened.push({ close: () => pool.close() });
  const secret = openSecrets(config, { create: true, isSealed: await isSealed(pool) });
  if (isRefusal(secret)) return secret;
  const wrongSecret = await proveSecret(pool, secret.secrets, clock.now());
  if (wrongSecret !== undefined) {
    secret.forget();
    return refuse("INVALID_REQUEST", wrongSecret);
  }
  onOpened?.({ installation, database: pool, secrets: secret.secrets });

  const processUuid = newUuid();
  const upkeep = createUpkeep({
    address: installation.address,
    clock,
    log,
    keptMonths: config.eventsKeptMonths,
  });
  opened.push({ close: upkeep.stop });
  await upkeep.start();
  const pulseDatabase = openDatabase(installation.address, { clock, log, maxConnections: 1 });
  opened.push({ close: () => pulseDatabase.close() });
  const writes = watchWrites({ database: pool, clock, log, processUuid });
  opened.push({ close: () => Promise.resolve(writes.stop()) });
  const { database } = writes;
  const directory = createKeyDirectory({ database, pulseDatabase, clock, log, processUuid });
  await directory.start();
  opened.push({ close: directory.stop });
  const events = createEventWriter({
    database,
    clock,
    log,
    processUuid,
    // The new counts go to the cached keys before the events are answered.
    onCharged: ({ licenseUuid, used }, receivedAtMs) =>
      directory.noteUsage(licenseUuid, { monthIndex: monthOf(receivedAtMs).index, used }),
    onUnknown: directory.doubtLicense,
    ...eventGathering,
  });
  const minted = app && createGitHubAppSource({ app, clock, log });
  const tokens = minted ?? createTokenSource({ database, secrets: secret.secrets, clock });

  let isStopping = false;
  const counted = {
    requestMetrics: createRequestMetrics(),
    limiter: createLimiter(config.limits),
    directory,
    events,
    database,
    isStopping: () => isStopping,
  };
  const metrics = await listenForMetrics(config.metricsListen, {
    platform,
    maxBodyBytes: MAX_BODY_BYTES,
    idleTimeoutSeconds: IDLE_TIMEOUT_SECONDS,
    answer: createMetricsPage({ ...counted, upkeep, tokens: minted, writes, dataDir: config.dataDir }),
  });
  if (isRefusal(metrics)) return metrics;
  if (metrics !== undefined) opened.push({ close: () => metrics.stop(0) });
  const answer = createApp({
    ...config,
    ...counted,
    clock,
    log,
    tokens,
    files: createFileDirectory({ database, clock }),
    modelsFolder: modelsFolderOf(config.dataDir),
    fileBody: platform.fileBody,
    sha256: platform.sha256,
    linkSigner: secret.secrets.signer("download-link"),
  });
  let listener: Listener;
  try {
    listener = await platform.listen({
      host: config.host,
      port: config.port,
      maxBodyBytes: MAX_BODY_BYTES,
      idleTimeoutSeconds: IDLE_TIMEOUT_SECONDS,
      answer,
      ...(tls && { tls }),
    });
  } catch (error) {
    return refuse("INVALID_REQUEST", reasonOf(error));
  }

  const certificate =
    tls && config.tls && createCertificate(tls, { files: config.tls, listener, clock, log });
  const hurried = Promise.withResolvers<void>();

  const stopInOrder = async (deadlineMs: number, graceMs: number): Promise<void> => {
    isStopping = true;
    const endMs = clock.monotonicMs() + deadlineMs;
    await Promise.race([sleep(graceMs), hurried.promise]);
    const spanMs = Math.max(0, deadlineMs - graceMs);
    const drainEndMs = clock.monotonicMs() + spanMs * DRAIN_SHARE;
    const left = (untilMs = drainEndMs) => Math.max(0, untilMs - clock.monotonicMs());
    await within(left() + CUT_OFF_MS, listener.stop(left()));
    await within(left() + CUT_OFF_MS, events.stop(left()));
    minted?.stop();
    await within(CUT_OFF_MS, upkeep.stop());
    await within(LAST_WORDS_MS, directory.stop());
    await within(CUT_OFF_MS, metrics?.stop(0));
    writes.stop();
    await within(CUT_OFF_MS, Promise.all([database.close(), pulseDatabase.close()]));
    // Not raced: what it does is bounded by itself, and a database that is left behind is no stop.
    await installation.close(left(endMs - Math.min(MAX_FORCE_MS, spanMs * FORCE_SHARE)));
  };

  /** Waits no longer than so, and not at all once somebody is in a hurry. */
  async function within(limitMs: number, work: Promise<unknown> | undefined): Promise<void> {
    if (work === undefined) return;
    const timeout = Promise.withResolvers<void>();
    const timer = setTimeout(timeout.resolve, limitMs);
    try {
      const settled = work.catch((error) =>
        log.warn("A part did not stop in order", { reason: String(error) }),
      );
      await Promise.race([settled, timeout.promise, hurried.promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  let stopped: Promise<void> | undefined;
  let pulses = -1;
  let pulsedMs = clock.monotonicMs();
  return {
    host: listener.host,
    port: listener.port,
    url: originOf(listener, tls !== undefined),
    metrics: metrics && { host: metrics.host, port: metrics.port },
    place: installation.place,
    database,
    directory,
    reload: certificate?.reload,
    isAlive() {
      const { beats = 0, failures = 0 } = directory.stats();
      if (beats + failures !== pulses) {
        pulses = beats + failures;
        pulsedMs = clock.monotonicMs();
      }
      return clock.monotonicMs() - pulsedMs < STUCK_MS;
    },
    stop(deadlineMs, { graceMs = 0 } = {}) {
      if (stopped !== undefined) hurried.resolve();
      stopped ??= stopInOrder(deadlineMs, graceMs);
      return stopped;
    },
  };
}

/** What closes on being cut off, and does so at once. */
const CUT_OFF_MS = 250;
/** When keys were last used is written down once more. */
const LAST_WORDS_MS = 1_000;

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/**
 * The service as a whole: which parts there are, the order in which they start, and the order in which
 * they stop. The only place that knows them all.
 */

import { monthOf } from "./calendar.ts";
import type { Clock } from "./clock.ts";
import type { Config } from "./config.ts";
import { type Database, migrate, migrations, openDatabase } from "./database/mod.ts";
import { createApp } from "./http/mod.ts";
import { newUuid } from "./ids.ts";
import { type Installation, openInstallation, openSecrets } from "./installation.ts";
import { createTokenSource, proveSecret } from "./installer/mod.ts";
import { createKeyDirectory, type KeyDirectory } from "./keys/mod.ts";
import type { Log } from "./log.ts";
import type { Listener, Platform } from "./platform/mod.ts";
import { isRefusal, type Refusal, refuse } from "./refusal.ts";
import type { Secrets } from "./secrets/mod.ts";
import { createEventWriter, createPartitions } from "./usage/mod.ts";

export interface ServiceOptions {
  readonly config: Config;
  readonly platform: Platform;
  readonly clock: Clock;
  readonly log: Log;
  /** Where it stands, when that is open already; by default it is opened by the settings. */
  readonly installation?: Installation;
  /** Done with the database before the first request is taken: what a demo adds. */
  readonly beforeListening?: (installation: OpenInstallation) => Promise<void>;
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
  /** Where the data is, for people. */
  readonly place: string;
  readonly database: Database;
  readonly directory: KeyDirectory;
  /**
   * Stops in order: health says so, requests in flight finish, queued events are committed, the database
   * stops. What is not done at the deadline is cut off.
   */
  stop(deadlineMs: number): Promise<void>;
}

/** Of a stop's time, how much is kept for the database. */
const DATABASE_STOP_SHARE = 0.5;
const MAX_BODY_BYTES = 1024 * 1024;
const IDLE_TIMEOUT_SECONDS = 30;

/** Starts the service; refuses, with a sentence for the operator, what must be mended first. */
export async function startService(options: ServiceOptions): Promise<Service | Refusal> {
  const installation =
    options.installation ?? (await openInstallation({ ...options, holder: "serve", create: true }));
  if (isRefusal(installation)) return installation;
  const opened: { close: () => Promise<void> }[] = [{ close: () => installation.close(5_000) }];
  const abandon = async () => {
    for (const part of opened.reverse()) await part.close();
  };
  try {
    const service = await startOn(installation, options, opened);
    if (isRefusal(service)) await abandon();
    return service;
  } catch (error) {
    await abandon();
    throw error;
  }
}

async function startOn(
  installation: Installation,
  { config, platform, clock, log, beforeListening }: ServiceOptions,
  opened: { close: () => Promise<void> }[],
): Promise<Service | Refusal> {
  const migrated = await migrate(installation.address, migrations);
  if ("refusal" in migrated) return refuse("INVALID_REQUEST", migrated.refusal);
  for (const migration of migrated.applied) log.info("Applied a migration", { name: migration.name });

  const database = openDatabase(installation.address, { clock, log });
  opened.push({ close: () => database.close() });
  const secret = openSecrets(config, { create: true });
  if (isRefusal(secret)) return secret;
  const wrongSecret = await proveSecret(database, secret.secrets, clock.now());
  if (wrongSecret !== undefined) {
    secret.forget();
    return refuse("INVALID_REQUEST", wrongSecret);
  }
  await beforeListening?.({ installation, database, secrets: secret.secrets });

  const processUuid = newUuid();
  const partitions = createPartitions({ database, clock, log });
  await partitions.start();
  opened.push({ close: async () => partitions.stop() });
  const directory = createKeyDirectory({ database, clock, log, processUuid });
  await directory.start();
  opened.push({ close: async () => directory.stop() });
  const events = createEventWriter({
    database,
    clock,
    log,
    processUuid,
    // The new counts go to the cached keys before the events are answered.
    onCharged: ({ licenseUuid, used }, receivedAtMs) =>
      directory.noteUsage(licenseUuid, { monthIndex: monthOf(receivedAtMs).index, used }),
    onUnknown: directory.forgetLicense,
  });
  const tokens = createTokenSource({ database, secrets: secret.secrets, clock });

  let isStopping = false;
  const answer = createApp({
    ...config,
    clock,
    log,
    database,
    directory,
    events,
    tokens,
    isStopping: () => isStopping,
  });
  let listener: Listener;
  try {
    listener = await platform.listen({
      host: config.host,
      port: config.port,
      maxBodyBytes: MAX_BODY_BYTES,
      idleTimeoutSeconds: IDLE_TIMEOUT_SECONDS,
      answer,
    });
  } catch (error) {
    return refuse(
      "INVALID_REQUEST",
      `${error instanceof Error ? error.message : String(error)}; choose another with --host and --port`,
    );
  }

  return {
    host: listener.host,
    port: listener.port,
    place: installation.place,
    database,
    directory,
    async stop(deadlineMs) {
      isStopping = true;
      const until = clock.monotonicMs() + deadlineMs * (1 - DATABASE_STOP_SHARE);
      const left = () => Math.max(0, until - clock.monotonicMs());
      await listener.stop(left());
      await events.stop(left());
      partitions.stop();
      directory.stop();
      await database.close();
      await installation.close(deadlineMs * DATABASE_STOP_SHARE);
    },
  };
}

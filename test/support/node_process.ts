/**
 * Runs the service as operators run it on Node: `dist/claviger.mjs` in a process of its own under the pinned
 * Node. It reaches the test server by a `postgres://` address. `make test-node` runs the suite of the HTTP
 * interface against it, with `TEST_PLATFORM=node`.
 *
 * The bundle runs unchanged. `moved_clock.ts`, which Node loads first, lets a test move the process's time. The log
 * goes to a file, in which a line appears up to 50 ms later.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../src/base/clock.ts";
import type { DatabaseAddress } from "../../src/database/mod.ts";
import type { Config } from "../../src/installation/config/config.ts";
import { SETTINGS } from "../../src/installation/config/settings.ts";
import type { Service } from "../../src/service/mod.ts";
import { startFaultyProxy } from "./faulty_proxy.ts";
import type { Offsets } from "./moved_clock.ts";
import { testFolder } from "./postgres.ts";
import { type ServiceProcess, spawnService, toServeCommand } from "./service_process.ts";

export interface NodeProcess {
  readonly pid: number;
  readonly service: Pick<Service, "host" | "port" | "metrics" | "admin" | "stop"> & {
    /** Of the other process's parts, a test can reach only its pulse. */
    readonly directory: { beat(): Promise<void> };
  };
  readonly logLines: string[];
  /** Resolves when the process has the same time as the test's clock. */
  ready(): Promise<void>;
}

export interface NodeProcessOptions {
  readonly config: Config;
  readonly clock: Clock;
  readonly address: DatabaseAddress;
}

const root = join(import.meta.dir, "../..");
const pinned = join(root, "node_modules/.bin/node");
/** The pinned Node; on systems without a pinned Node, the one in the PATH. */
export const NODE = existsSync(pinned) ? pinned : "node";
const BUNDLE = join(root, "dist/claviger.mjs");

/** Shorter than the limit of a test, so that a start that hangs shows its log. */
const START_LIMIT_MS = 25_000;
/** Two pulses are 500 ms apart: after this time a new pulse has begun and ended, even on a busy machine. */
const PULSE_MS = 650;
/** A line is written after 50 ms at most; a busy machine may take longer. */
const GATHERED_MS = 200;

export async function startNodeProcess(options: NodeProcessOptions): Promise<NodeProcess> {
  if (!existsSync(BUNDLE)) throw new Error(`There is no ${BUNDLE}: build it by make node`);
  const { clock } = options;
  const proxy = await startFaultyProxy(options.address);
  const folder = mkdtempSync(join(testFolder(), "node-"));
  const logPath = join(folder, "log");
  let offsets = offsetsOf(clock);
  const program = [NODE, "--import", join(import.meta.dir, "moved_clock.ts"), BUNDLE];
  const child = spawnService(toServeCommand(program, ["--port", String(options.config.port)]), {
    cwd: folder,
    env: { ...toSettings(options.config), DATABASE_URL: proxy.address.url },
    files: { out: join(folder, "out"), err: logPath },
    clock: offsets,
    limitMs: START_LIMIT_MS,
  });
  const remove = async () => {
    await child.end();
    await proxy.close();
    rmSync(folder, { recursive: true, force: true });
  };
  let listeners: Listeners;
  try {
    listeners = await readListeners(child, options.config);
  } catch (error) {
    await remove();
    throw error;
  }

  const lines: string[] = [];
  let read = 0;
  const ready = async () => {
    const wanted = offsetsOf(clock);
    if (isSame(wanted, offsets)) return;
    offsets = wanted;
    await child.moveClock(wanted);
  };

  return {
    pid: child.pid,
    service: {
      host: "127.0.0.1",
      ...listeners,
      directory: {
        async beat() {
          await ready();
          await Bun.sleep(PULSE_MS);
        },
      },
      async stop(deadlineMs) {
        await child.stop("SIGTERM", deadlineMs);
        await remove();
      },
    },
    /**
     * An array that a test may also empty. Each access waits and adds the lines written since the last
     * access.
     */
    get logLines() {
      Bun.sleepSync(GATHERED_MS);
      const text = readFileSync(logPath, "utf8");
      const end = text.lastIndexOf("\n") + 1;
      for (const line of text.slice(read, end).split("\n")) if (line !== "") lines.push(line);
      read = end;
      return lines;
    },
    ready,
  };
}

type Listeners = Pick<Service, "port" | "metrics" | "admin">;

/** Reads the addresses of all listeners from the lines that `serve` prints when it is ready. */
async function readListeners(
  child: ServiceProcess,
  { metricsListen, adminListen, adminUrl }: Config,
): Promise<Listeners> {
  const at = async (words: string) => {
    const [, port] = await child.untilPrinted(new RegExp(`${words} http://127\\.0\\.0\\.1:(\\d+)\\b`));
    return { host: "127.0.0.1", port: Number(port) };
  };
  const { port } = await at("serves at");
  const metrics = metricsListen && (await at("metrics are at"));
  const admin = adminListen && (await at("serves operators at"));
  const origin = `http://127.0.0.1:${admin?.port}`;
  return { port, metrics, admin: admin && { ...admin, origin, url: adminUrl ?? origin } };
}

function offsetsOf(clock: Clock): Offsets {
  return {
    wallMs: Math.round(clock.now().getTime() - Date.now()),
    monotonicMs: Math.round(clock.monotonicMs() - performance.now()),
  };
}

/** Ignores the small difference that comes from reading two clocks one after the other. */
function isSame(a: Offsets, b: Offsets): boolean {
  return Math.abs(a.wallMs - b.wallMs) < 5 && Math.abs(a.monotonicMs - b.monotonicMs) < 5;
}

/** Returns the environment variables that produce this configuration. */
function toSettings({ brand, limits, ...config }: Config): Record<string, string> {
  const ofLimits = Object.entries(limits)
    .map(([endpoint, perMinute]) => [`CLAVIGER_LIMIT_${endpoint.toUpperCase()}`, String(perMinute)] as const)
    .filter(([name]) => SETTINGS.some((setting) => setting.name === name));
  return {
    ...Object.fromEntries(ofLimits),
    CLAVIGER_HOST: "127.0.0.1",
    CLAVIGER_PORT: String(config.port),
    CLAVIGER_DATA_DIR: config.dataDir,
    CLAVIGER_PUBLIC_URL: config.publicUrl ?? "",
    CLAVIGER_BRAND: brand.name,
    CLAVIGER_INSTALLER_HOST: brand.installerHost,
    CLAVIGER_MODEL_TYPES: brand.modelTypes.join(","),
    CLAVIGER_RATE_LIMITS: config.rateLimits,
    CLAVIGER_DOWNLOADS_PER_KEY: String(config.downloadsPerKey),
    CLAVIGER_DOWNLOADS_AT_ONCE: String(config.downloadsAtOnce),
    CLAVIGER_UPLOAD_MAX_GB: String(config.uploadMaxGb),
    CLAVIGER_TRUSTED_PROXIES: config.trustedProxies.map(([network, bits]) => `${network}/${bits}`).join(","),
    CLAVIGER_LOG_FORMAT: "json",
    CLAVIGER_OFFLINE_DAYS: Object.entries(config.offlineDays)
      .map((pair) => pair.join("="))
      .join(","),
    CLAVIGER_LOG_REQUESTS: config.logRequests,
    CLAVIGER_LOG_SLOW_MS: String(config.logSlowMs),
    CLAVIGER_EVENTS_KEPT: String(config.eventsKeptMonths),
    CLAVIGER_EVENT_TEXT_MB_A_DAY: String(config.textBounds.licenseBytes / 1e6),
    CLAVIGER_EVENT_TEXT_MB_A_DAY_IN_ALL: String(config.textBounds.installationBytes / 1e6),
    CLAVIGER_BACKUP_OVERDUE_HOURS: String(config.backupOverdueHours),
    CLAVIGER_METRICS_LISTEN: toText(config.metricsListen),
    CLAVIGER_ADMIN_LISTEN: toText(config.adminListen),
    CLAVIGER_ADMIN_URL: config.adminUrl ?? "",
    CLAVIGER_SECRET: config.secret?.text ?? "",
    ...(config.provider && {
      CLAVIGER_OIDC_ISSUER: config.provider.issuer,
      CLAVIGER_OIDC_CLIENT_ID: config.provider.clientId,
      CLAVIGER_OIDC_CLIENT_SECRET_FILE: config.provider.secretFile ?? "",
      CLAVIGER_OIDC_NAME: config.provider.name,
      CLAVIGER_OIDC_ROLES: config.provider.roles.map(({ role, group }) => `${role}=${group}`).join(","),
      CLAVIGER_OIDC_GROUPS_CLAIM: config.provider.groupsClaim,
      CLAVIGER_OIDC_SCOPES: config.provider.scopes ?? "",
    }),
    ...(config.modelsBucket && {
      CLAVIGER_MODELS_S3: config.modelsBucket.url,
      CLAVIGER_MODELS_S3_REGION: config.modelsBucket.region,
      CLAVIGER_MODELS_S3_CREDENTIALS_FILE: config.modelsBucket.credentialsFile ?? "",
      CLAVIGER_MODELS_S3_CA_FILE: config.modelsBucket.caFile ?? "",
    }),
    ...(config.gitHubApp && {
      CLAVIGER_GITHUB_APP_ID: config.gitHubApp.appId,
      CLAVIGER_GITHUB_INSTALLATION_ID: config.gitHubApp.installationId,
      CLAVIGER_GITHUB_PRIVATE_KEY_FILE: config.gitHubApp.privateKeyFile ?? "",
      CLAVIGER_GITHUB_REPOSITORY: config.gitHubApp.repository,
      CLAVIGER_GITHUB_URL: config.gitHubApp.apiUrl,
    }),
  };
}

function toText(address: Config["metricsListen"]): string {
  return address === undefined ? "" : `${address.host}:${address.port}`;
}

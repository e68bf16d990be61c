/**
 * Reads all settings from flags, the environment and the settings file (in this order of precedence), checks
 * them once, and returns them as one value. No other part of the program reads settings.
 *
 * One-shot commands read the same file as the service, `/etc/claviger/claviger.env`, so they find the same
 * database and secret. A wrong or unknown setting is refused by name before the program does anything else.
 */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { type Brand, createBrand } from "../brand.ts";
import type { BucketSettings } from "../bucket/mod.ts";
import { LIMITED_ENDPOINTS, type LimitedEndpoint } from "../endpoints.ts";
import type { OfflineDays } from "../licensing/mod.ts";
import type { TrustedProxies } from "../limits/mod.ts";
import type { LogFormat, LogRequests } from "../log.ts";
import { type Refusal, refuse } from "../refusal.ts";
import type { GitHubAppSettings } from "../repository_token/mod.ts";
import type { TlsFiles } from "../tls/mod.ts";
import { type ConfigSource, createReader, type Get, tellOrigin, type Unseen } from "./config_source.ts";
import { type GivenSecret, readBucket, readSecret, readTls } from "./credentials.ts";
import { readGitHubApp } from "./github_app.ts";
import { SettingError } from "./setting_error.ts";
import type { ListenAddress } from "./setting_rules.ts";
import { settingOf } from "./settings.ts";

export interface Config {
  readonly host: string;
  readonly port: number;
  /** The address under which clients reach the service, without a slash at its end; undefined if it is not set. */
  readonly publicUrl: string | undefined;
  /** The certificate and its key; undefined for plain http. */
  readonly tls: TlsFiles | undefined;
  /** How long the service still takes requests after SIGTERM, while health says that it is stopping. */
  readonly stopGraceMs: number;
  /** The operator's own PostgreSQL; undefined for the PostgreSQL inside. */
  readonly databaseUrl: string | undefined;
  /** The operator's folder of `postgres` and `initdb`, absolute; undefined for the programs inside. */
  readonly postgresBin: string | undefined;
  /** Absolute. */
  readonly dataDir: string;
  /** The folder of model files that all hosts share, absolute; undefined for the folder `models` in the data folder. */
  readonly modelsDir: string | undefined;
  /** The bucket of model files; undefined for files in the folder alone. */
  readonly modelsBucket: BucketSettings | undefined;
  /** How many bytes of the bucket's files the folder keeps. */
  readonly modelsCacheBytes: number;
  readonly brand: Brand;
  /** The most keys in memory. */
  readonly cacheKeys: number;
  /** Requests a minute; 0 means no limit. */
  readonly limits: Readonly<Record<LimitedEndpoint, number>>;
  /** Whether the requests of a key are counted in this process or, for all processes, in the database. */
  readonly rateLimits: "process" | "shared";
  /** How many days a signed license of each tier is valid without a network; 0 means none. */
  readonly offlineDays: OfflineDays;
  /** The most downloads in progress at once, for one key and for all keys together; 0 means no bound. */
  readonly downloadsPerKey: number;
  readonly downloadsAtOnce: number;
  /** The largest file of a model that programs and the console may upload, in gigabytes; 0 means none. */
  readonly uploadMaxGb: number;
  readonly trustedProxies: TrustedProxies;
  readonly logFormat: LogFormat;
  readonly logRequests: LogRequests;
  /** A request that takes this long or longer is always logged. */
  readonly logSlowMs: number;
  /** For how many months events are kept; 0 means forever. */
  readonly eventsKeptMonths: number;
  /** How many hours after a backup the next one is overdue. */
  readonly backupOverdueHours: number;
  /** The address that serves metrics; undefined if metrics are not served. */
  readonly metricsListen: ListenAddress | undefined;
  /** The address that serves the console and the API for operators; undefined if neither is served. */
  readonly adminListen: ListenAddress | undefined;
  /** The origin under which operators reach that address, such as `https://admin.example.org`; undefined if it is not set. */
  readonly adminUrl: string | undefined;
  /** The root secret that was given; undefined if it is kept in the data folder. */
  readonly secret: GivenSecret | undefined;
  /** The GitHub App that mints repository tokens; undefined if the operator stores a token. */
  readonly gitHubApp: GitHubAppSettings | undefined;
  /** Why the service may have settings that this process cannot see; undefined if it sees all of them. */
  readonly unseen?: Unseen | undefined;
}

const DEFAULT_ROOT_FOLDER = "/var/lib/claviger";

/** Reads and checks all settings. The refusal names the first wrong setting and the values that it allows. */
export function readConfig(source: ConfigSource): Config | Refusal {
  try {
    return read(source);
  } catch (error) {
    if (error instanceof SettingError)
      return refuse("INVALID_REQUEST", error.message + tellOrigin(error, source));
    throw error;
  }
}

function read(source: ConfigSource): Config {
  const get = createReader(source);
  for (const name of Object.keys({ ...source.unit?.env, ...source.env })) {
    if (name.startsWith("CLAVIGER_")) settingOf(name);
  }
  const databaseUrl = get("DATABASE_URL");
  const postgresBin = get("CLAVIGER_POSTGRES_BIN");
  const modelsDir = get("CLAVIGER_MODELS_DIR");
  const installerHost = get("CLAVIGER_INSTALLER_HOST");
  const modelTypes = get("CLAVIGER_MODEL_TYPES");
  return {
    host: get("CLAVIGER_HOST"),
    port: get("CLAVIGER_PORT"),
    publicUrl: get("CLAVIGER_PUBLIC_URL"),
    tls: readTls(get, source),
    stopGraceMs: Number(get("CLAVIGER_STOP_GRACE")) * 1_000,
    databaseUrl,
    // Both are allowed: the settings file may name the folder while one command gets DATABASE_URL.
    postgresBin: databaseUrl === undefined ? postgresBin : undefined,
    dataDir: resolve(source.workingFolder, get("CLAVIGER_DATA_DIR") ?? findDataFolder(source)),
    modelsDir: modelsDir && resolve(source.workingFolder, modelsDir),
    modelsBucket: readBucket(get, source),
    modelsCacheBytes: get("CLAVIGER_MODELS_CACHE_GB") * 1e9,
    brand: createBrand(get("CLAVIGER_BRAND"), { installerHost, ...(modelTypes && { modelTypes }) }),
    cacheKeys: get("CLAVIGER_CACHE_KEYS"),
    limits: readLimits(get),
    rateLimits: get("CLAVIGER_RATE_LIMITS"),
    offlineDays: get("CLAVIGER_OFFLINE_DAYS"),
    downloadsPerKey: get("CLAVIGER_DOWNLOADS_PER_KEY"),
    downloadsAtOnce: get("CLAVIGER_DOWNLOADS_AT_ONCE"),
    uploadMaxGb: get("CLAVIGER_UPLOAD_MAX_GB"),
    trustedProxies: get("CLAVIGER_TRUSTED_PROXIES") ?? [],
    logFormat: get("CLAVIGER_LOG_FORMAT"),
    logRequests: get("CLAVIGER_LOG_REQUESTS"),
    logSlowMs: get("CLAVIGER_LOG_SLOW_MS"),
    eventsKeptMonths: get("CLAVIGER_EVENTS_KEPT"),
    backupOverdueHours: get("CLAVIGER_BACKUP_OVERDUE_HOURS"),
    metricsListen: get("CLAVIGER_METRICS_LISTEN"),
    adminListen: get("CLAVIGER_ADMIN_LISTEN"),
    adminUrl: get("CLAVIGER_ADMIN_URL"),
    secret: readSecret(get, source),
    gitHubApp: readGitHubApp(get, source),
    unseen: source.unseen,
  };
}

function readLimits(get: Get): Config["limits"] {
  const limits = LIMITED_ENDPOINTS.map((endpoint) => {
    const name = endpoint.toUpperCase() as Uppercase<LimitedEndpoint>;
    return [endpoint, get(`CLAVIGER_LIMIT_${name}`)];
  });
  return Object.fromEntries(limits) as Config["limits"];
}

function findDataFolder({ env, isRoot, unit }: ConfigSource): string {
  // systemd gives a colon-separated list; the first entry is the unit's main folder.
  const [state] = (env.STATE_DIRECTORY ?? unit?.env.STATE_DIRECTORY ?? "").split(":");
  if (state) return state;
  return isRoot || existsSync(DEFAULT_ROOT_FOLDER) ? DEFAULT_ROOT_FOLDER : "claviger-data";
}

/**
 * Reads all settings from flags, the environment and the settings file (in this order of precedence), checks
 * them once, and returns them as one value. No other part of the program reads settings.
 *
 * One-shot commands read the same file as the service, `/etc/claviger/claviger.env`, so they find the same
 * database and secret. A wrong or unknown setting is refused by name before the program does anything else.
 */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { type Refusal, refuse } from "../../base/refusal.ts";
import { createBrand } from "../../licensing/mod.ts";
import { LIMITED_ENDPOINTS, type LimitedEndpoint } from "../../wire/mod.ts";
import {
  type ConfigSource,
  createLookup,
  createReader,
  type Get,
  tellOrigin,
  type UnitSettings,
} from "./config_source.ts";
import { readBucket, readGitHubApp, readProvider, readSecret, readTls } from "./credentials.ts";
import { settingOf } from "./find_setting.ts";
import { SettingError } from "./setting_error.ts";

export type Config = Readonly<ReturnType<typeof read>>;

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

function read(source: ConfigSource) {
  const get = createReader(source);
  for (const name of Object.keys(source.env)) {
    if (name.startsWith("CLAVIGER_")) settingOf(name);
  }
  const databaseUrl = get("DATABASE_URL");
  const postgresBin = get("CLAVIGER_POSTGRES_BIN");
  const modelsDir = get("CLAVIGER_MODELS_DIR");
  const messageFile = get("CLAVIGER_CUSTOMER_MESSAGE_FILE");
  const installerHost = get("CLAVIGER_INSTALLER_HOST");
  const modelTypes = get("CLAVIGER_MODEL_TYPES");
  return {
    host: get("CLAVIGER_HOST"),
    port: get("CLAVIGER_PORT"),
    /** The address under which clients reach the service, without a slash at its end; undefined if it is not set. */
    publicUrl: get("CLAVIGER_PUBLIC_URL"),
    /** The certificate and its key; undefined for plain http. */
    tls: readTls(get, source),
    /** How long the service still takes requests after SIGTERM, while health says that it is stopping. */
    stopGraceMs: Number(get("CLAVIGER_STOP_GRACE")) * 1_000,
    /** The operator's own PostgreSQL; undefined for the PostgreSQL inside. */
    databaseUrl,
    /** The operator's folder of `postgres` and `initdb`, absolute; undefined for the programs inside. */
    // Both are allowed: the settings file may name the folder while one command gets DATABASE_URL.
    postgresBin: databaseUrl === undefined ? postgresBin : undefined,
    /** Absolute. */
    dataDir: resolve(source.workingFolder, get("CLAVIGER_DATA_DIR") ?? findDataFolder(source)),
    /** The folder of model files that all hosts share, absolute; undefined for the folder `models` in the data folder. */
    modelsDir: modelsDir && resolve(source.workingFolder, modelsDir),
    /** The bucket of model files; undefined for files in the folder alone. */
    modelsBucket: readBucket(get, source),
    /** How many bytes of the bucket's files the folder keeps. */
    modelsCacheBytes: get("CLAVIGER_MODELS_CACHE_GB") * 1e9,
    brand: createBrand(get("CLAVIGER_BRAND"), { installerHost, ...(modelTypes && { modelTypes }) }),
    /** The most keys in memory. */
    cacheKeys: get("CLAVIGER_CACHE_KEYS"),
    /** Requests a minute; 0 means no limit. */
    limits: readLimits(get),
    /** Whether the requests of a key are counted in this process or, for all processes, in the database. */
    rateLimits: get("CLAVIGER_RATE_LIMITS"),
    /** How many days a signed license of each tier is valid without a network; 0 means none. */
    offlineDays: get("CLAVIGER_OFFLINE_DAYS"),
    /** The most downloads in progress at once, for one key and for all keys together; 0 means no bound. */
    downloadsPerKey: get("CLAVIGER_DOWNLOADS_PER_KEY"),
    downloadsAtOnce: get("CLAVIGER_DOWNLOADS_AT_ONCE"),
    /** The largest file of a model that programs and the console may upload, in gigabytes; 0 means none. */
    uploadMaxGb: get("CLAVIGER_UPLOAD_MAX_GB"),
    trustedProxies: get("CLAVIGER_TRUSTED_PROXIES") ?? [],
    logFormat: get("CLAVIGER_LOG_FORMAT"),
    logRequests: get("CLAVIGER_LOG_REQUESTS"),
    /** A request that takes this long or longer is always logged. */
    logSlowMs: get("CLAVIGER_LOG_SLOW_MS"),
    /** For how many months events are kept; 0 means forever. */
    eventsKeptMonths: get("CLAVIGER_EVENTS_KEPT"),
    /** How many bytes of texts the events of a license, and those of all licenses, may store in a day, UTC. */
    textBounds: {
      licenseBytes: get("CLAVIGER_EVENT_TEXT_MB_A_DAY") * 1e6,
      installationBytes: get("CLAVIGER_EVENT_TEXT_MB_A_DAY_IN_ALL") * 1e6,
    },
    /** How many hours after a backup the next one is overdue. */
    backupOverdueHours: get("CLAVIGER_BACKUP_OVERDUE_HOURS"),
    /** When there are notices. */
    notices: {
      days: get("CLAVIGER_NOTICE_DAYS"),
      shares: get("CLAVIGER_NOTICE_SHARES"),
      refusalsAnHour: get("CLAVIGER_NOTICE_REFUSALS"),
    },
    /** The address that serves metrics; undefined if metrics are not served. */
    metricsListen: get("CLAVIGER_METRICS_LISTEN"),
    /** The address that serves the console and the API for operators; undefined if neither is served. */
    adminListen: get("CLAVIGER_ADMIN_LISTEN"),
    /** The origin under which operators reach that address, such as `https://admin.example.org`; undefined if it is not set. */
    adminUrl: get("CLAVIGER_ADMIN_URL"),
    /** The file with the message for a customer who gets a key, absolute; undefined for the usual message. */
    customerMessageFile: messageFile && resolve(source.workingFolder, messageFile),
    /** How many minutes without a request end a session of the console. */
    sessionIdleMinutes: get("CLAVIGER_SESSION_IDLE"),
    /** The provider at which operators log in; undefined if they log in with codes alone. */
    provider: readProvider(get, source),
    /** The root secret that was given; undefined if it is kept in the data folder. */
    secret: readSecret(get, source),
    /** The GitHub App that mints repository tokens; undefined if the operator stores a token. */
    gitHubApp: readGitHubApp(get, source),
    /** Why the service may have settings that this process cannot see; undefined if it sees all of them. */
    unseen: source.unseen,
  };
}

function readLimits(get: Get): Readonly<Record<LimitedEndpoint, number>> {
  const limits = LIMITED_ENDPOINTS.map((endpoint) => {
    const name = endpoint.toUpperCase() as Uppercase<LimitedEndpoint>;
    return [endpoint, get(`CLAVIGER_LIMIT_${name}`)];
  });
  return Object.fromEntries(limits) as Record<LimitedEndpoint, number>;
}

/**
 * Finds the data folder that no setting names. With a source that knows the unit, never returns the default folder while
 * the service may have another one.
 */
function findDataFolder(source: ConfigSource): string {
  const { env, isRoot, unit, unseenFolder, otherUnit, workingFolder } = source;
  // systemd gives a colon-separated list; the first entry is the unit's main folder.
  const [state] = (env.STATE_DIRECTORY || unit?.stateFolder || "").split(":");
  if (state) return state;
  const standard = isRoot || existsSync(DEFAULT_ROOT_FOLDER) ? DEFAULT_ROOT_FOLDER : "claviger-data";
  const refuseStandard = (why: string, remedy: string) =>
    new SettingError(`Cannot choose the data folder: ${why}; ${remedy}name the folder with --data-dir`);
  if (unseenFolder !== undefined) {
    const why = `the service may have another one than ${standard}: ${unseenFolder.why}`;
    throw refuseStandard(why, `${unseenFolder.remedy}, or `);
  }
  let theirs: string | undefined;
  try {
    theirs = otherUnit && findFolderOf(otherUnit, source);
  } catch (error) {
    if (!(error instanceof SettingError)) throw error;
    throw refuseStandard(`the service may have another one than ${standard}: ${error.message}`, "");
  }
  if (theirs !== undefined && theirs !== resolve(workingFolder, standard))
    throw refuseStandard(`${otherUnit?.name} works in ${theirs}, and this command names none`, "");
  return standard;
}

/** Returns the data folder that a unit names for its service, in whatever way; undefined if it names none. */
function findFolderOf(unit: UnitSettings, source: ConfigSource): string | undefined {
  const find = createLookup({ ...source, env: {}, flags: {}, envFile: undefined, unit });
  const folder =
    find("CLAVIGER_DATA_DIR").value || (unit.oldSettings.get("CLAVIGER_DATA_DIR") ?? unit.stateFolder);
  // systemd starts a service in `/`.
  return folder === undefined ? undefined : resolve("/", folder);
}

/**
 * Reads all settings from flags, the environment and the settings file (in this order of precedence), checks
 * them once, and returns them as one value. No other part of the program reads settings.
 *
 * One-shot commands read the same file as the service, `/etc/claviger/claviger.env`, so they find the same
 * database and secret. A wrong or unknown setting is refused by name before the program does anything else.
 */
import { existsSync } from "node:fs";
import { isAbsolute, join, resolve } from "node:path";
import { type Brand, createBrand } from "../brand.ts";
import type { LimitedEndpoint } from "../endpoints.ts";
import type { OfflineDays } from "../licensing/mod.ts";
import { parseTrustedProxies, type TrustedProxies } from "../limits/mod.ts";
import type { LogFormat, LogRequests } from "../log.ts";
import { type Refusal, refuse } from "../refusal.ts";
import type { TlsFiles } from "../tls/mod.ts";
import { demand, SettingError, settingOf, wrong } from "./setting_error.ts";
import {
  type Get,
  type ListenAddress,
  matching,
  oneOf,
  readAdminUrl,
  readApiUrl,
  readDatabaseUrl,
  readHost,
  readListenAddress,
  readLogRequests,
  readOfflineDays,
  readPort,
  readPublicUrl,
  wholeNumber,
} from "./setting_values.ts";
import { isSetting } from "./settings.ts";
import { readNamed, readSettingsFile } from "./settings_file.ts";

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
  readonly brand: Brand;
  /** Requests a minute; 0 means no limit. */
  readonly limits: Readonly<Record<LimitedEndpoint, number>>;
  /** How many days a signed license of each tier is valid without a network; 0 means none. */
  readonly offlineDays: OfflineDays;
  /** The most downloads in progress at once, for one key and for all keys together; 0 means no bound. */
  readonly downloadsPerKey: number;
  readonly downloadsAtOnce: number;
  readonly trustedProxies: TrustedProxies;
  readonly logFormat: LogFormat;
  readonly logRequests: LogRequests;
  /** A request that takes this long or longer is always logged. */
  readonly logSlowMs: number;
  /** For how many months events are kept; 0 means forever. */
  readonly eventsKeptMonths: number;
  /** The address that serves metrics; undefined if metrics are not served. */
  readonly metricsListen: ListenAddress | undefined;
  /** The address that serves the console and the API for operators; undefined if neither is served. */
  readonly adminListen: ListenAddress | undefined;
  /** The origin under which operators reach it, such as `https://admin.example.org`; undefined if it is not set. */
  readonly adminUrl: string | undefined;
  /** The root secret that was given; undefined if it is kept in the data folder. */
  readonly secret: GivenSecret | undefined;
  /** The GitHub App that mints repository tokens; undefined if the operator stores a token. */
  readonly gitHubApp: GitHubAppSettings | undefined;
  /** Why the service may have settings that this process cannot see; undefined if it sees all of them. */
  readonly unseen?: Unseen | undefined;
}

export interface Unseen {
  readonly why: string;
  readonly remedy: string;
}

/** A GitHub App that mints repository tokens. */
export interface GitHubAppSettings {
  readonly appId: string;
  readonly installationId: string;
  readonly repository: string;
  /** Without a slash at the end. */
  readonly apiUrl: string;
  /** Absolute; undefined if no file is named: commands do not need the key, a service does. */
  readonly privateKeyFile: string | undefined;
}

export interface GivenSecret {
  readonly text: string;
  /** Where the secret was given, as text for messages. */
  readonly source: string;
  /** The path of its file, as it was named, and the file's owner (undefined for a pipe). */
  readonly file?: { readonly path: string; readonly uid?: number };
}

/** The values of flags, by the names of their settings. */
export type Flags = Readonly<Record<string, string | undefined>>;

export interface ConfigSource {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly flags?: Flags;
  /** The settings file; by default `/etc/claviger/claviger.env`, if it exists. */
  readonly envFile?: string | undefined;
  readonly workingFolder: string;
  /** Whether the process runs as root; the default data folder depends on it. */
  readonly isRoot: boolean;
  /** The settings that the service's unit gives to the service, for commands that root runs beside it. */
  readonly unit?: UnitSettings | undefined;
  /** Why the service may have settings that this process cannot see. */
  readonly unseen?: Unseen | undefined;
}

/** The settings and credentials that a systemd unit gives to its service. */
export interface UnitSettings {
  /** The unit's name, as text for messages. */
  readonly name: string;
  /** The environment of the unit. This process's environment, flags and settings files override it. */
  readonly env: Readonly<Record<string, string>>;
  /** The settings files to read in place of the default file; a later file overrides an earlier file. */
  readonly envFiles: readonly string[];
  /** The paths of the credentials, by name. */
  readonly credentials: ReadonlyMap<string, string>;
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

/** Turns checked settings into JSON values for another process of this program; {@linkcode unpackConfig} reads them. */
export function packConfig(config: Config): PackedConfig {
  return { ...config, trustedProxies: config.trustedProxies.map(([network, bits]) => `${network}/${bits}`) };
}

export type PackedConfig = Omit<Config, "trustedProxies"> & { readonly trustedProxies: readonly string[] };

/** Turns the JSON values of {@linkcode packConfig} back into settings. */
export function unpackConfig(packed: PackedConfig): Config {
  const proxies = parseTrustedProxies(packed.trustedProxies.join(","));
  return { ...packed, trustedProxies: proxies.ok ? proxies.proxies : [] };
}

/** A setting's value and the place where it was found. */
export interface FoundSetting {
  readonly value: string;
  /** `flag`, `environment`, `default`, the path of the settings file, or the name of the unit. */
  readonly source: string;
  /** The source as the end of a refusal; empty for a default. */
  readonly origin: string;
}

/**
 * Reads the settings file and returns a function that finds a setting by its name: first in the flags, then in
 * the environment, the settings file, the unit, and the defaults.
 */
export function createLookup(source: ConfigSource): (name: string) => FoundSetting {
  const file = readSettingsFile({ ...source, unitFiles: source.unit?.envFiles });
  return (name) => {
    const flag = source.flags?.[name];
    if (flag !== undefined)
      return { value: flag, source: "flag", origin: `; it was given by ${toFlag(name)}` };
    const inEnv = nonEmpty(source.env[name]);
    if (inEnv !== undefined) {
      return { value: inEnv, source: "environment", origin: `; it is set in ${environmentOf(source)}` };
    }
    const inFile = file.get(name);
    if (inFile !== undefined && inFile.value !== "") {
      return { value: inFile.value, source: inFile.path, origin: `; it is set in ${inFile.place}` };
    }
    const inUnit = nonEmpty(source.unit?.env[name]);
    if (source.unit !== undefined && inUnit !== undefined) {
      return { value: inUnit, source: source.unit.name, origin: `; it is set in ${source.unit.name}` };
    }
    return { value: settingOf(name).default, source: "default", origin: "" };
  };
}

/** Returns the end of a refusal that names the place of the wrong setting, so that the operator corrects that place. */
function tellOrigin({ setting }: SettingError, source: ConfigSource): string {
  if (setting === undefined) return "";
  if (!isSetting(setting)) {
    const { unit, env } = source;
    return `; it is set in ${unit && !(setting in env) ? unit.name : environmentOf(source)}`;
  }
  return createLookup(source)(setting).origin;
}

/** Names the source of the environment: systemd reads the settings file of a service and passes it as environment. */
function environmentOf({ env }: ConfigSource): string {
  return env.NOTIFY_SOCKET === undefined
    ? "the environment"
    : "the unit, or in a file of its EnvironmentFile=";
}

/** Returns the flag of a setting: `--port` for `CLAVIGER_PORT`. */
function toFlag(name: string): string {
  return `--${name
    .replace(/^CLAVIGER_/, "")
    .toLowerCase()
    .replaceAll("_", "-")}`;
}

/** Returns undefined for an empty value: it counts as not set, as in systemd and in the shell's `${NAME:-…}`. */
function nonEmpty(value: string | undefined): string | undefined {
  return value === "" ? undefined : value;
}

function read(source: ConfigSource): Config {
  const find = createLookup(source);
  const get = (name: string): string => find(name).value;
  for (const name of Object.keys({ ...source.unit?.env, ...source.env })) {
    if (name.startsWith("CLAVIGER_")) settingOf(name);
  }

  const brandName = matching(get, "CLAVIGER_BRAND", /^[a-z][a-z0-9]{0,15}$/);
  const installerHost = matching(get, "CLAVIGER_INSTALLER_HOST", /^[a-z][a-z0-9]{0,31}$/);
  const types = get("CLAVIGER_MODEL_TYPES");
  const modelTypes = types.split(",").map((type) => type.trim());
  if (
    types !== "" &&
    !(modelTypes.length <= 20 && modelTypes.every((type) => /^[A-Za-z0-9]{1,64}$/.test(type)))
  ) {
    throw wrong("CLAVIGER_MODEL_TYPES", types);
  }
  const proxies = parseTrustedProxies(get("CLAVIGER_TRUSTED_PROXIES"));
  if (!proxies.ok) {
    const why = proxies.error.replace(/^Cannot read trusted proxies: /, "");
    throw new SettingError(`${demand("CLAVIGER_TRUSTED_PROXIES")}: ${why}`, "CLAVIGER_TRUSTED_PROXIES");
  }
  const limit = (name: string) => wholeNumber(get, `CLAVIGER_LIMIT_${name}`, 10_000_000);

  return {
    host: readHost(get),
    port: readPort(get),
    publicUrl: readPublicUrl(get("CLAVIGER_PUBLIC_URL")),
    tls: readTls(get, source),
    stopGraceMs: Number(matching(get, "CLAVIGER_STOP_GRACE", /^([0-2](\.\d{1,3})?|3(\.0{1,3})?)$/)) * 1_000,
    databaseUrl: readDatabaseUrl(get("DATABASE_URL")),
    postgresBin: readPostgresBin(get),
    dataDir: resolve(source.workingFolder, dataFolder(get("CLAVIGER_DATA_DIR"), source)),
    brand: createBrand(brandName, { installerHost, ...(types !== "" && { modelTypes }) }),
    limits: {
      validate: limit("VALIDATE"),
      refresh: limit("REFRESH"),
      revoke: limit("REVOKE"),
      license: limit("LICENSE"),
      repo_token: limit("REPO_TOKEN"),
      models: limit("MODELS"),
      downloads: limit("DOWNLOADS"),
      analytics: limit("ANALYTICS"),
    },
    offlineDays: readOfflineDays(get),
    downloadsPerKey: wholeNumber(get, "CLAVIGER_DOWNLOADS_PER_KEY", 1_000_000),
    downloadsAtOnce: wholeNumber(get, "CLAVIGER_DOWNLOADS_AT_ONCE", 1_000_000),
    trustedProxies: proxies.proxies,
    logFormat: oneOf(get, "CLAVIGER_LOG_FORMAT", ["text", "json"]),
    logRequests: readLogRequests(get),
    logSlowMs: wholeNumber(get, "CLAVIGER_LOG_SLOW_MS", 60_000, 1),
    eventsKeptMonths: wholeNumber(get, "CLAVIGER_EVENTS_KEPT", 1_200),
    metricsListen: readListenAddress(get, "CLAVIGER_METRICS_LISTEN"),
    adminListen: readListenAddress(get, "CLAVIGER_ADMIN_LISTEN"),
    adminUrl: readAdminUrl(get("CLAVIGER_ADMIN_URL")),
    secret: readSecret(get, source),
    gitHubApp: readGitHubApp(get, source),
    unseen: source.unseen,
  };
}

/** Reads the paths of certificate and key, both or neither. The service checks the content of the files. */
function readTls(get: Get, source: ConfigSource): TlsFiles | undefined {
  const { workingFolder } = source;
  const [cert, key] = [get("CLAVIGER_TLS_CERT"), get("CLAVIGER_TLS_KEY")];
  if ((cert === "") !== (key === "")) {
    const [given, missing] = cert === "" ? ["KEY", "CERT"] : ["CERT", "KEY"];
    throw new SettingError(
      `CLAVIGER_TLS_${given} is given without CLAVIGER_TLS_${missing}: give both or neither`,
      `CLAVIGER_TLS_${given}`,
    );
  }
  const folder = source.env.CREDENTIALS_DIRECTORY;
  const find = (certFile: string, keyFile: string): TlsFiles => ({
    certFile,
    keyFile,
    ...(folder && certFile.startsWith(`${folder}/`) && { isCopy: true }),
  });
  if (cert !== "") return find(resolve(workingFolder, cert), resolve(workingFolder, key));
  const certFile = findCredential("claviger-tls-cert", source);
  const keyFile = findCredential("claviger-tls-key", source);
  return certFile.exists || keyFile.exists ? find(certFile.path, keyFile.path) : undefined;
}

function readPostgresBin(get: Get): string | undefined {
  const folder = get("CLAVIGER_POSTGRES_BIN");
  if (folder !== "" && !isAbsolute(folder)) throw wrong("CLAVIGER_POSTGRES_BIN", folder);
  // Both are allowed: the settings file may name the folder while one command gets DATABASE_URL.
  return folder === "" || get("DATABASE_URL") !== "" ? undefined : folder;
}

/** Finds a credential in the folder that systemd provides, else at the path that the unit names. */
function findCredential(
  name: string,
  { env, unit }: ConfigSource,
): { readonly path: string; readonly exists: boolean } {
  const folder = env.CREDENTIALS_DIRECTORY;
  const path = folder ? join(folder, name) : (unit?.credentials.get(name) ?? name);
  return { path, exists: path !== name && existsSync(path) };
}

function dataFolder(setting: string, { env, isRoot, unit }: ConfigSource): string {
  if (setting !== "") return setting;
  // systemd gives a colon-separated list; the first entry is the unit's main folder.
  const [state] = (env.STATE_DIRECTORY ?? unit?.env.STATE_DIRECTORY ?? "").split(":");
  if (state) return state;
  return isRoot || existsSync(DEFAULT_ROOT_FOLDER) ? DEFAULT_ROOT_FOLDER : "claviger-data";
}

function readSecret(get: Get, from: ConfigSource): GivenSecret | undefined {
  const text = get("CLAVIGER_SECRET");
  const path = get("CLAVIGER_SECRET_FILE");
  if (text !== "" && path !== "") {
    throw new SettingError("CLAVIGER_SECRET and CLAVIGER_SECRET_FILE are both given: leave one of them out");
  }
  if (text !== "") return { text, source: "CLAVIGER_SECRET" };
  if (path !== "") return secretIn(path, { what: "CLAVIGER_SECRET_FILE", source: `the file ${path}` });
  const credential = findCredential("claviger-secret", from);
  if (!credential.exists) return undefined;
  const source = "the credential claviger-secret";
  return secretIn(credential.path, { what: source, source });
}

function secretIn(
  path: string,
  { what, source }: { readonly what: string; readonly source: string },
): GivenSecret {
  const { text, uid } = readNamed(path, what);
  return { text, source, file: { path, ...(uid !== undefined && { uid }) } };
}

/**
 * Reads the settings of the GitHub App, all or none. Only the key may be missing: it can be a credential of the
 * service, and a command that reads the same settings file does not get credentials.
 */
function readGitHubApp(get: Get, source: ConfigSource): GitHubAppSettings | undefined {
  const path = get("CLAVIGER_GITHUB_PRIVATE_KEY_FILE");
  const credential = findCredential("claviger-github-key", source);
  const needed = ["CLAVIGER_GITHUB_APP_ID", "CLAVIGER_GITHUB_INSTALLATION_ID", "CLAVIGER_GITHUB_REPOSITORY"];
  const missing = needed.filter((name) => get(name) === "");
  const hasUrl = get("CLAVIGER_GITHUB_URL") !== settingOf("CLAVIGER_GITHUB_URL").default;
  // If some settings cannot be seen, a credential without the other settings does not mean that they are missing.
  const isGiven = path !== "" || hasUrl || (credential.exists && source.unseen === undefined);
  if (missing.length === needed.length && !isGiven) return undefined;
  if (missing.length > 0) {
    throw new SettingError(`Some settings of the GitHub App are given, but not ${missing.join(", ")}`);
  }
  return {
    appId: matching(get, "CLAVIGER_GITHUB_APP_ID", /^([1-9]\d{0,18}|Iv[\w.]{1,60})$/),
    installationId: matching(get, "CLAVIGER_GITHUB_INSTALLATION_ID", /^[1-9]\d{0,18}$/),
    repository: matching(get, "CLAVIGER_GITHUB_REPOSITORY", /^(?!\.{1,2}$)[\w.-]{1,100}$/),
    apiUrl: readApiUrl(get("CLAVIGER_GITHUB_URL")),
    privateKeyFile:
      path !== "" ? resolve(source.workingFolder, path) : credential.exists ? credential.path : undefined,
  };
}

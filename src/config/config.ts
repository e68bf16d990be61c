/**
 * Settings: read from flags, the environment and the settings file (in this order of precedence), checked
 * once, and handed on as one value. Nobody else reads the environment.
 *
 * One-shot commands read the same file as the service, `/etc/claviger/claviger.env`, and so find the same
 * database and secret. A wrong or unknown setting is refused by name before anything starts.
 */
import { existsSync } from "node:fs";
import { isAbsolute, join, resolve } from "node:path";
import { type Brand, createBrand } from "../brand.ts";
import type { LimitedEndpoint } from "../endpoints.ts";
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
  readApiUrl,
  readDatabaseUrl,
  readHost,
  readListenAddress,
  readLogRequests,
  readPort,
  readPublicUrl,
  wholeNumber,
} from "./setting_values.ts";
import { isSetting } from "./settings.ts";
import { readNamed, readSettingsFile } from "./settings_file.ts";

export interface Config {
  readonly host: string;
  readonly port: number;
  /** Where clients reach the service, without a slash at its end; undefined where nobody said. */
  readonly publicUrl: string | undefined;
  /** The certificate and its key; undefined for plain http. */
  readonly tls: TlsFiles | undefined;
  /** After SIGTERM, how long the service goes on while health says that it is stopping. */
  readonly stopGraceMs: number;
  /** The operator's own PostgreSQL; undefined for the one inside. */
  readonly databaseUrl: string | undefined;
  /** The operator's folder of `postgres` and `initdb`, absolute; undefined for those inside. */
  readonly postgresBin: string | undefined;
  /** Absolute. */
  readonly dataDir: string;
  readonly brand: Brand;
  /** Requests a minute; 0 is none. */
  readonly limits: Readonly<Record<LimitedEndpoint, number>>;
  /** Downloads under way at once, for one key and in all; 0 is no bound. */
  readonly downloadsPerKey: number;
  readonly downloadsAtOnce: number;
  readonly trustedProxies: TrustedProxies;
  readonly logFormat: LogFormat;
  readonly logRequests: LogRequests;
  /** A request that takes as long is always logged. */
  readonly logSlowMs: number;
  /** For how many months events are kept; 0 is forever. */
  readonly eventsKeptMonths: number;
  /** Where metrics are served; undefined for nowhere. */
  readonly metricsListen: ListenAddress | undefined;
  /** The root secret that was given; undefined where the data folder keeps it. */
  readonly secret: GivenSecret | undefined;
  /** Where repository tokens come from; undefined where the operator stores one. */
  readonly gitHubApp: GitHubAppSettings | undefined;
  /** Why the service may have settings that are not seen here; undefined where all are seen. */
  readonly unseen?: Unseen | undefined;
}

export interface Unseen {
  readonly why: string;
  readonly remedy: string;
}

/** A GitHub App by which repository tokens are minted. */
export interface GitHubAppSettings {
  readonly appId: string;
  readonly installationId: string;
  readonly repository: string;
  /** Without a slash at the end. */
  readonly apiUrl: string;
  /** Absolute; undefined where none is named: commands do without it, a service does not. */
  readonly privateKeyFile: string | undefined;
}

export interface GivenSecret {
  readonly text: string;
  /** Where it was given, for people. */
  readonly source: string;
  /** The file that holds it, as it was named, and to whom that belongs; undefined for a pipe. */
  readonly file?: { readonly path: string; readonly uid?: number };
}

/** What came by flags, by the names of the settings they stand for. */
export type Flags = Readonly<Record<string, string | undefined>>;

export interface ConfigSource {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly flags?: Flags;
  /** The settings file; `/etc/claviger/claviger.env`, where it exists, by default. */
  readonly envFile?: string | undefined;
  readonly workingFolder: string;
  /** Whether the process runs as root: it decides the default data folder. */
  readonly isRoot: boolean;
  /** What the service's unit gives the service, for root's commands beside it. */
  readonly unit?: UnitSettings | undefined;
  /** Why the service may have settings that are not seen here. */
  readonly unseen?: Unseen | undefined;
}

/** What a unit of systemd's gives its service. */
export interface UnitSettings {
  /** The unit's name, for people. */
  readonly name: string;
  /** Environment, command line and settings files override these, as the files do for the service. */
  readonly env: Readonly<Record<string, string>>;
  /** The settings files to read in place of the default one; a later file overrides an earlier one. */
  readonly envFiles: readonly string[];
  /** The paths of the credentials, by their names. */
  readonly credentials: ReadonlyMap<string, string>;
}

const DEFAULT_ROOT_FOLDER = "/var/lib/claviger";
/** Reads and checks all settings; refuses with the name of the first wrong one and what is allowed. */
export function readConfig(source: ConfigSource): Config | Refusal {
  try {
    return read(source);
  } catch (error) {
    if (error instanceof SettingError)
      return refuse("INVALID_REQUEST", error.message + tellOrigin(error, source));
    throw error;
  }
}

/** Writes checked settings for another process of this program; {@linkcode unpackConfig} reads them. */
export function packConfig(config: Config): PackedConfig {
  return { ...config, trustedProxies: config.trustedProxies.map(([network, bits]) => `${network}/${bits}`) };
}

export type PackedConfig = Omit<Config, "trustedProxies"> & { readonly trustedProxies: readonly string[] };

export function unpackConfig(packed: PackedConfig): Config {
  const proxies = parseTrustedProxies(packed.trustedProxies.join(","));
  return { ...packed, trustedProxies: proxies.ok ? proxies.proxies : [] };
}

/** Where a setting was found. */
export interface FoundSetting {
  readonly value: string;
  /** `flag`, `environment`, `default`, the path of the settings file, or the name of the unit. */
  readonly source: string;
  /** The same as the end of a refusal; empty for a default. */
  readonly origin: string;
}

/** Reads the settings file, and gives what finds a setting by its name: flags before the rest. */
export function createLookup(source: ConfigSource): (name: string) => FoundSetting {
  const file = readSettingsFile({ ...source, unitFiles: source.unit?.envFiles });
  return (name) => {
    const flag = source.flags?.[name];
    if (flag !== undefined)
      return { value: flag, source: "flag", origin: `; it was given by ${toFlag(name)}` };
    const own = nonEmpty(source.env[name]);
    if (own !== undefined) {
      return { value: own, source: "environment", origin: `; it is set in ${environmentOf(source)}` };
    }
    const kept = file.get(name);
    if (kept !== undefined && kept.value !== "") {
      return { value: kept.value, source: kept.path, origin: `; it is set in ${kept.place}` };
    }
    const given = nonEmpty(source.unit?.env[name]);
    if (source.unit !== undefined && given !== undefined) {
      return { value: given, source: source.unit.name, origin: `; it is set in ${source.unit.name}` };
    }
    return { value: settingOf(name).default, source: "default", origin: "" };
  };
}

/** Who said what is wrong, so that nobody mends another place. */
function tellOrigin({ setting }: SettingError, source: ConfigSource): string {
  if (setting === undefined) return "";
  if (!isSetting(setting)) {
    const { unit, env } = source;
    return `; it is set in ${unit && !(setting in env) ? unit.name : environmentOf(source)}`;
  }
  return createLookup(source)(setting).origin;
}

/** Where the environment comes from: systemd reads the settings file for a service, and gives this to it. */
function environmentOf({ env }: ConfigSource): string {
  return env.NOTIFY_SOCKET === undefined
    ? "the environment"
    : "the unit, or in a file of its EnvironmentFile=";
}

/** The flag of a setting: `--port` of `CLAVIGER_PORT`. */
function toFlag(name: string): string {
  return `--${name
    .replace(/^CLAVIGER_/, "")
    .toLowerCase()
    .replaceAll("_", "-")}`;
}

/** An empty value counts as none, as it does for systemd and for shells' `${NAME:-…}`. */
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
      repo_token: limit("REPO_TOKEN"),
      models: limit("MODELS"),
      downloads: limit("DOWNLOADS"),
      analytics: limit("ANALYTICS"),
    },
    downloadsPerKey: wholeNumber(get, "CLAVIGER_DOWNLOADS_PER_KEY", 1_000_000),
    downloadsAtOnce: wholeNumber(get, "CLAVIGER_DOWNLOADS_AT_ONCE", 1_000_000),
    trustedProxies: proxies.proxies,
    logFormat: oneOf(get, "CLAVIGER_LOG_FORMAT", ["text", "json"]),
    logRequests: readLogRequests(get),
    logSlowMs: wholeNumber(get, "CLAVIGER_LOG_SLOW_MS", 60_000, 1),
    eventsKeptMonths: wholeNumber(get, "CLAVIGER_EVENTS_KEPT", 1_200),
    metricsListen: readListenAddress(get, "CLAVIGER_METRICS_LISTEN"),
    secret: readSecret(get, source),
    gitHubApp: readGitHubApp(get, source),
    unseen: source.unseen,
  };
}

/** Both or neither; what is in the files is looked at by whoever serves with them. */
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
  // Not refused: the settings file may name the folder, and one command may be given another database.
  return folder === "" || get("DATABASE_URL") !== "" ? undefined : folder;
}

/** Finds a credential in the folder that systemd gives, else in the file that the unit names. */
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
  // systemd gives a colon-separated list; the first is the unit's main one.
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
 * All settings of the App or none. Only the key may be missing: it can be a credential of the service, which
 * a command that reads the same settings file does not get.
 */
function readGitHubApp(get: Get, source: ConfigSource): GitHubAppSettings | undefined {
  const path = get("CLAVIGER_GITHUB_PRIVATE_KEY_FILE");
  const credential = findCredential("claviger-github-key", source);
  const needed = ["CLAVIGER_GITHUB_APP_ID", "CLAVIGER_GITHUB_INSTALLATION_ID", "CLAVIGER_GITHUB_REPOSITORY"];
  const missing = needed.filter((name) => get(name) === "");
  const hasUrl = get("CLAVIGER_GITHUB_URL") !== settingOf("CLAVIGER_GITHUB_URL").default;
  // While some settings cannot be seen, a credential alone does not mean that the operator forgot the others.
  const isGiven = path !== "" || hasUrl || (credential.exists && source.unseen === undefined);
  if (missing.length === needed.length && !isGiven) return undefined;
  if (missing.length > 0) {
    throw new SettingError(`A part of the GitHub App's settings is given, but not ${missing.join(", ")}`);
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

/**
 * Settings: read from flags, the environment and the settings file (in this order of precedence), checked
 * once, and handed on as one value. Nobody else reads the environment.
 *
 * One-shot commands read the same file as the service, `/etc/claviger/claviger.env`, and so find the same
 * database and secret. A wrong or unknown setting is refused by name before anything starts.
 */
import { existsSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { type Brand, createBrand } from "./brand.ts";
import type { LimitedEndpoint } from "./endpoints.ts";
import { parseTrustedProxies, type TrustedProxies } from "./limits/mod.ts";
import type { LogFormat, LogRequests } from "./log.ts";
import { type Refusal, refuse } from "./refusal.ts";
import { SETTINGS, type Setting } from "./settings.ts";
import type { TlsFiles } from "./tls.ts";

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
}

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
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
}

const DEFAULT_ENV_FILE = "/etc/claviger/claviger.env";
const DEFAULT_ROOT_FOLDER = "/var/lib/claviger";
const FILE_LIMIT_BYTES = 64 * 1024;

/** Thrown inside while reading; callers of {@linkcode readConfig} get a refusal. */
class SettingError extends Error {}

class UnreadableFile extends SettingError {}

/** Reads and checks all settings; refuses with the name of the first wrong one and what is allowed. */
export function readConfig(source: ConfigSource): Config | Refusal {
  try {
    return read(source);
  } catch (error) {
    if (error instanceof SettingError) return refuse("INVALID_REQUEST", error.message);
    throw error;
  }
}

function read(source: ConfigSource): Config {
  const file = readSettingsFile(source);
  const get = (name: string): string =>
    source.flags?.[name] ?? nonEmpty(source.env[name]) ?? nonEmpty(file.get(name)) ?? settingOf(name).default;
  for (const name of Object.keys(source.env)) {
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
    throw new SettingError(`${demand("CLAVIGER_TRUSTED_PROXIES")}: ${why}`);
  }
  const limit = (name: string) => wholeNumber(get, `CLAVIGER_LIMIT_${name}`, 10_000_000);

  return {
    host: matching(get, "CLAVIGER_HOST", /^[A-Za-z0-9.:_%-]{1,255}$/),
    port: wholeNumber(get, "CLAVIGER_PORT", 65_535),
    publicUrl: readPublicUrl(get("CLAVIGER_PUBLIC_URL")),
    tls: readTls(get, source),
    stopGraceMs: Number(matching(get, "CLAVIGER_STOP_GRACE", /^([0-2](\.\d{1,3})?|3(\.0{1,3})?)$/)) * 1_000,
    databaseUrl: readDatabaseUrl(get("DATABASE_URL")),
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
    secret: readSecret(get, source.env),
    gitHubApp: readGitHubApp(get, source),
  };
}

/** A setting as it stands: what holds, and who said so. */
export interface EffectiveSetting {
  readonly name: string;
  /** Empty where nothing holds; what is secret in it is masked. */
  readonly value: string;
  /** `flag`, `environment`, `credential`, `default`, or the path of the settings file. */
  readonly source: string;
}

/** Every setting with its value and where that comes from. Throws nothing that `readConfig` does not refuse. */
export function explainConfig(source: ConfigSource): readonly EffectiveSetting[] | Refusal {
  const config = readConfig(source);
  if ("sentence" in config) return config;
  const file = readSettingsFile(source);
  return SETTINGS.map(({ name, default: standard }) => {
    const flag = source.flags?.[name];
    if (flag !== undefined) return { name, value: masked(name, flag), source: "flag" };
    const own = nonEmpty(source.env[name]);
    if (own !== undefined) return { name, value: masked(name, own), source: "environment" };
    const kept = nonEmpty(file.get(name));
    if (kept !== undefined) {
      return { name, value: masked(name, kept), source: source.envFile ?? DEFAULT_ENV_FILE };
    }
    const found = foundElsewhere(name, config, source);
    return found ?? { name, value: standard, source: "default" };
  });
}

/** What holds although no setting says it: systemd's folders, and what follows from others. */
function foundElsewhere(name: string, config: Config, { env }: ConfigSource): EffectiveSetting | undefined {
  const credential = (value: string | undefined) =>
    value === undefined ? undefined : { name, value, source: "credential" };
  switch (name) {
    case "CLAVIGER_DATA_DIR":
      return { name, value: config.dataDir, source: env.STATE_DIRECTORY ? "STATE_DIRECTORY" : "default" };
    case "CLAVIGER_MODEL_TYPES":
      return { name, value: config.brand.modelTypes.join(","), source: "default" };
    case "CLAVIGER_SECRET_FILE":
      return config.secret?.source.startsWith("the credential") ? credential("claviger-secret") : undefined;
    case "CLAVIGER_TLS_CERT":
      return credential(config.tls?.certFile);
    case "CLAVIGER_TLS_KEY":
      return credential(config.tls?.keyFile);
    case "CLAVIGER_GITHUB_PRIVATE_KEY_FILE":
      return credential(config.gitHubApp?.privateKeyFile);
    default:
      return undefined;
  }
}

const MASK = "********";

function masked(name: string, value: string): string {
  if (name === "CLAVIGER_SECRET") return MASK;
  if (name !== "DATABASE_URL") return value;
  const url = new URL(value);
  if (url.password !== "") url.password = MASK;
  // The driver takes these from the query too.
  for (const key of url.searchParams.keys()) if (/pass/i.test(key)) url.searchParams.set(key, MASK);
  return url.href;
}

function settingOf(name: string): Setting {
  const setting = SETTINGS.find((candidate) => candidate.name === name);
  if (setting !== undefined) return setting;
  throw new SettingError(
    `${name} is not a setting: allowed are ${SETTINGS.map((candidate) => candidate.name).join(", ")}`,
  );
}

/** An empty value counts as none, as it does for systemd and for shells' `${NAME:-…}`. */
function nonEmpty(value: string | undefined): string | undefined {
  return value === "" ? undefined : value;
}

function demand(name: string): string {
  return `${name} must be ${settingOf(name).allowed}`;
}

function wrong(name: string, value: string): SettingError {
  const shown = value.length <= 100 ? value : `${value.slice(0, 100)}…`;
  return new SettingError(`${demand(name)}, not ${JSON.stringify(shown)}`);
}

type Get = (name: string) => string;

function matching(get: Get, name: string, pattern: RegExp): string {
  const value = get(name);
  if (!pattern.test(value)) throw wrong(name, value);
  return value;
}

function wholeNumber(get: Get, name: string, max: number, min = 0): number {
  const value = get(name);
  if (!/^\d{1,10}$/.test(value) || Number(value) > max || Number(value) < min) throw wrong(name, value);
  return Number(value);
}

function readLogRequests(get: Get): LogRequests {
  const value = get("CLAVIGER_LOG_REQUESTS");
  const [, every] = /^1\/([1-9]\d{0,6})$/.exec(value) ?? [];
  if (every !== undefined && Number(every) <= 1_000_000) return `1/${Number(every)}`;
  return oneOf(get, "CLAVIGER_LOG_REQUESTS", ["sampled", "all", "off"]);
}

function readListenAddress(get: Get, name: string): ListenAddress | undefined {
  const value = get(name);
  if (value === "") return undefined;
  const [, inner, plain, port] =
    /^(?:\[([\dA-Fa-f:.%]{2,60})\]|([\w.-]{1,255})):(\d{1,5})$/.exec(value) ?? [];
  const host = inner ?? plain;
  if (host === undefined || Number(port) > 65_535) throw wrong(name, value);
  return { host, port: Number(port) };
}

function oneOf<const Value extends string>(get: Get, name: string, allowed: readonly Value[]): Value {
  const value = get(name);
  const found = allowed.find((candidate) => candidate === value);
  if (found === undefined) throw wrong(name, value);
  return found;
}

/** Both or neither; what is in the files is looked at by whoever serves with them. */
function readTls(get: Get, { env, workingFolder }: ConfigSource): TlsFiles | undefined {
  const [cert, key] = [get("CLAVIGER_TLS_CERT"), get("CLAVIGER_TLS_KEY")];
  if ((cert === "") !== (key === "")) {
    const [given, missing] = cert === "" ? ["KEY", "CERT"] : ["CERT", "KEY"];
    throw new SettingError(
      `CLAVIGER_TLS_${given} is given without CLAVIGER_TLS_${missing}: give both or neither`,
    );
  }
  if (cert !== "") return { certFile: resolve(workingFolder, cert), keyFile: resolve(workingFolder, key) };
  const folder = env.CREDENTIALS_DIRECTORY;
  if (!folder) return undefined;
  const files = { certFile: join(folder, "claviger-tls-cert"), keyFile: join(folder, "claviger-tls-key") };
  return existsSync(files.certFile) || existsSync(files.keyFile) ? files : undefined;
}

/** The address may hold a password, so a wrong one is not repeated. */
function readDatabaseUrl(text: string): string | undefined {
  if (text === "") return undefined;
  const url = URL.parse(text);
  // Without a host the driver would take one from PGHOST, which nobody meant.
  if (url === null || !/^postgres(ql)?:$/.test(url.protocol) || url.hostname === "" || !isDecodable(url)) {
    throw new SettingError(
      `${demand("DATABASE_URL")}; special characters in the password are written as %23`,
    );
  }
  return text;
}

/** False for a stray percent sign, which the driver would stumble over. */
function isDecodable({ username, password, pathname }: URL): boolean {
  try {
    for (const part of [username, password, pathname]) decodeURIComponent(part);
    return true;
  } catch {
    return false;
  }
}

function readPublicUrl(text: string): string | undefined {
  if (text === "") return undefined;
  // A user and a password are left out of what is repeated, as a query is: either may be a secret.
  if (!/^https?:\/\/[^\s@?#\\]{1,500}$/i.test(text) || !URL.canParse(text)) {
    throw new SettingError(`${demand("CLAVIGER_PUBLIC_URL")}, without user, query and fragment`);
  }
  return new URL(text).href.replace(/\/+$/, "");
}

function dataFolder(setting: string, { env, isRoot }: ConfigSource): string {
  if (setting !== "") return setting;
  // systemd gives a colon-separated list; the first is the unit's main one.
  const [state] = (env.STATE_DIRECTORY ?? "").split(":");
  if (state) return state;
  return isRoot || existsSync(DEFAULT_ROOT_FOLDER) ? DEFAULT_ROOT_FOLDER : "claviger-data";
}

function readSecret(get: Get, env: ConfigSource["env"]): GivenSecret | undefined {
  const text = get("CLAVIGER_SECRET");
  const path = get("CLAVIGER_SECRET_FILE");
  if (text !== "" && path !== "") {
    throw new SettingError("CLAVIGER_SECRET and CLAVIGER_SECRET_FILE are both given: leave one of them out");
  }
  if (text !== "") return { text, source: "CLAVIGER_SECRET" };
  if (path !== "") return { text: readBounded(path, "CLAVIGER_SECRET_FILE"), source: `the file ${path}` };
  const credential = env.CREDENTIALS_DIRECTORY && join(env.CREDENTIALS_DIRECTORY, "claviger-secret");
  if (!credential || !existsSync(credential)) return undefined;
  const source = "the credential claviger-secret";
  return { text: readBounded(credential, source), source };
}

/**
 * All settings of the App or none. Only the key may be missing: it can be a credential of the service, which
 * a command that reads the same settings file does not get.
 */
function readGitHubApp(get: Get, { env, workingFolder }: ConfigSource): GitHubAppSettings | undefined {
  const path = get("CLAVIGER_GITHUB_PRIVATE_KEY_FILE");
  const credential = env.CREDENTIALS_DIRECTORY && join(env.CREDENTIALS_DIRECTORY, "claviger-github-key");
  const hasCredential = Boolean(credential) && existsSync(credential ?? "");
  const needed = ["CLAVIGER_GITHUB_APP_ID", "CLAVIGER_GITHUB_INSTALLATION_ID", "CLAVIGER_GITHUB_REPOSITORY"];
  const missing = needed.filter((name) => get(name) === "");
  const hasUrl = get("CLAVIGER_GITHUB_URL") !== settingOf("CLAVIGER_GITHUB_URL").default;
  if (missing.length === needed.length && path === "" && !hasCredential && !hasUrl) return undefined;
  if (missing.length > 0) {
    throw new SettingError(`A part of the GitHub App's settings is given, but not ${missing.join(", ")}`);
  }
  return {
    appId: matching(get, "CLAVIGER_GITHUB_APP_ID", /^([1-9]\d{0,18}|Iv[\w.]{1,60})$/),
    installationId: matching(get, "CLAVIGER_GITHUB_INSTALLATION_ID", /^[1-9]\d{0,18}$/),
    repository: matching(get, "CLAVIGER_GITHUB_REPOSITORY", /^(?!\.{1,2}$)[\w.-]{1,100}$/),
    apiUrl: readApiUrl(get("CLAVIGER_GITHUB_URL")),
    privateKeyFile: path !== "" ? resolve(workingFolder, path) : hasCredential ? credential : undefined,
  };
}

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** The address may hold what should not be in it, so a wrong one is not repeated. */
function readApiUrl(text: string): string {
  const url = URL.parse(text);
  const isSafe = url?.protocol === "https:" || (url?.protocol === "http:" && LOOPBACK.test(url.hostname));
  if (url === null || !isSafe || url.username + url.password !== "" || /[?#\s]/.test(text)) {
    throw new SettingError(demand("CLAVIGER_GITHUB_URL"));
  }
  return url.href.replace(/\/+$/, "");
}

function readBounded(path: string, what: string): string {
  try {
    if (statSync(path).size > FILE_LIMIT_BYTES) {
      throw new SettingError(`Cannot read ${what}: ${path} has more than ${FILE_LIMIT_BYTES} bytes`);
    }
    return readFileSync(path, "utf8");
  } catch (error) {
    if (error instanceof SettingError) throw error;
    const code = error instanceof Error && "code" in error ? String(error.code) : String(error);
    throw new UnreadableFile(`Cannot read ${what}: ${path}: ${READ_FAILURES[code] ?? code}`);
  }
}

const READ_FAILURES: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file",
  ENOTDIR: "there is no such file",
  EISDIR: "it is a folder",
  EACCES:
    "this user may not read it; run the command by sudo, or give a secret to the service as a systemd credential",
};

/**
 * Reads `NAME=value` lines, as systemd's EnvironmentFile has them: blank lines and those that begin with
 * `#` or `;` are left out, quotes around a value are taken off.
 */
function readSettingsFile({ envFile, env }: ConfigSource): Map<string, string> {
  const settings = new Map<string, string>();
  if (envFile === undefined && !existsSync(DEFAULT_ENV_FILE)) return settings;
  const path = envFile ?? DEFAULT_ENV_FILE;
  let text: string;
  try {
    text = readBounded(path, "the settings file");
  } catch (error) {
    // systemd read it as root and handed its settings on to a user who may not: that is how it should be.
    if (error instanceof UnreadableFile && envFile === undefined && env.STATE_DIRECTORY) return settings;
    throw error;
  }
  for (const [index, raw] of text.split("\n").entries()) {
    const line = raw.trim();
    if (line === "" || line.startsWith("#") || line.startsWith(";")) continue;
    const match = /^([A-Za-z_][A-Za-z0-9_]*)=(.*)$/.exec(line);
    if (match === null) throw new SettingError(`${path}, line ${index + 1}: it must be NAME=value`);
    const [, name = "", value = ""] = match;
    settingOf(name);
    settings.set(name, unquoted(value));
  }
  return settings;
}

function unquoted(value: string): string {
  const match = /^(["'])(.*)\1$/.exec(value.trim());
  return match?.[2] ?? value.trim();
}

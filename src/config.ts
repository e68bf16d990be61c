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

export interface Config {
  readonly host: string;
  readonly port: number;
  /** The operator's own PostgreSQL; undefined for the one inside. */
  readonly databaseUrl: string | undefined;
  /** Absolute. */
  readonly dataDir: string;
  readonly brand: Brand;
  /** Requests a minute; 0 is none. */
  readonly limits: Readonly<Record<LimitedEndpoint, number>>;
  readonly trustedProxies: TrustedProxies;
  readonly logFormat: LogFormat;
  readonly logRequests: LogRequests;
  /** The root secret as text; undefined where the data folder keeps it. */
  readonly secret: string | undefined;
}

/** A setting: its name, what is allowed, and how it is read; `read` returns undefined for a wrong value. */
export interface Setting {
  readonly name: string;
  readonly default: string;
  readonly allowed: string;
  readonly meaning: string;
}

/** Every setting, for the README's table and for the list in a refusal. */
export const SETTINGS: readonly Setting[] = [
  {
    name: "DATABASE_URL",
    default: "",
    allowed: "a postgres:// address",
    meaning: "the operator's own PostgreSQL, 15 or newer; without it the one inside is used",
  },
  {
    name: "CLAVIGER_HOST",
    default: "127.0.0.1",
    allowed: "an address or host name to listen on",
    meaning: "where the service listens",
  },
  {
    name: "CLAVIGER_PORT",
    default: "8080",
    allowed: "a whole number from 0 to 65535",
    meaning: "the port; 0 lets the system choose",
  },
  {
    name: "CLAVIGER_DATA_DIR",
    default: "",
    allowed: "a folder",
    meaning:
      "the data folder; else $STATE_DIRECTORY, else /var/lib/claviger for root or where it exists, else ./claviger-data",
  },
  {
    name: "CLAVIGER_BRAND",
    default: "svc",
    allowed: "1 to 16 lowercase letters and digits, a letter first",
    meaning: "the word that keys begin with and, capitalised, model types",
  },
  {
    name: "CLAVIGER_INSTALLER_HOST",
    default: "repo",
    allowed: "1 to 32 lowercase letters and digits, a letter first",
    meaning: "the word in the installer's path and field",
  },
  {
    name: "CLAVIGER_MODEL_TYPES",
    default: "",
    allowed: "1 to 20 names separated by commas, each of 1 to 64 letters and digits",
    meaning: "model types that may be registered; the brand's LDA, QDA and Probit by default",
  },
  ...(
    [
      ["VALIDATE", "100", "/v1/auth/validate"],
      ["REFRESH", "10", "/v1/auth/refresh"],
      ["REVOKE", "10", "/v1/auth/revoke"],
      ["REPO_TOKEN", "20", "/v1/installer/repo-token"],
      ["MODELS", "60", "/v1/models/list"],
      ["ANALYTICS", "1000", "/v1/analytics/log"],
    ] as const
  ).map(([name, standard, path]) => ({
    name: `CLAVIGER_LIMIT_${name}`,
    default: standard,
    allowed: "a whole number from 0 to 10000000",
    meaning: `requests a minute on ${path}; 0 is no limit`,
  })),
  {
    name: "CLAVIGER_TRUSTED_PROXIES",
    default: "",
    allowed: "addresses and networks (CIDR) separated by commas",
    meaning: "proxies whose X-Forwarded-For is believed",
  },
  { name: "CLAVIGER_LOG_FORMAT", default: "text", allowed: "text or json", meaning: "the form of log lines" },
  {
    name: "CLAVIGER_LOG_REQUESTS",
    default: "sampled",
    allowed: "sampled, all or off",
    meaning:
      "successful requests in the access log: one in 100, all, or none; refusals, changes, slow and failed ones always are",
  },
  {
    name: "CLAVIGER_SECRET",
    default: "",
    allowed: "at least 32 random bytes as hexadecimal digits or base64",
    meaning: "the root secret; generated into the data folder when none is given and the database is inside",
  },
  {
    name: "CLAVIGER_SECRET_FILE",
    default: "",
    allowed: "a file that holds such a secret",
    meaning: "where the root secret is read from; a systemd credential named claviger-secret does as well",
  },
];

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
  const file = readSettingsFile(source.envFile);
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
  if (!proxies.ok) throw new SettingError(`CLAVIGER_TRUSTED_PROXIES is wrong. ${proxies.error}`);
  const limit = (name: string) => wholeNumber(get, `CLAVIGER_LIMIT_${name}`, 10_000_000);

  return {
    host: matching(get, "CLAVIGER_HOST", /^[A-Za-z0-9.:_%-]{1,255}$/),
    port: wholeNumber(get, "CLAVIGER_PORT", 65_535),
    databaseUrl: readDatabaseUrl(get("DATABASE_URL")),
    dataDir: resolve(source.workingFolder, dataFolder(get("CLAVIGER_DATA_DIR"), source)),
    brand: createBrand(brandName, { installerHost, ...(types !== "" && { modelTypes }) }),
    limits: {
      validate: limit("VALIDATE"),
      refresh: limit("REFRESH"),
      revoke: limit("REVOKE"),
      repo_token: limit("REPO_TOKEN"),
      models: limit("MODELS"),
      analytics: limit("ANALYTICS"),
    },
    trustedProxies: proxies.proxies,
    logFormat: oneOf(get, "CLAVIGER_LOG_FORMAT", ["text", "json"]),
    logRequests: oneOf(get, "CLAVIGER_LOG_REQUESTS", ["sampled", "all", "off"]),
    secret: readSecret(get, source.env),
  };
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

function wrong(name: string, value: string): SettingError {
  return new SettingError(`${name} must be ${settingOf(name).allowed}, not ${JSON.stringify(value)}`);
}

type Get = (name: string) => string;

function matching(get: Get, name: string, pattern: RegExp): string {
  const value = get(name);
  if (!pattern.test(value)) throw wrong(name, value);
  return value;
}

function wholeNumber(get: Get, name: string, max: number): number {
  const value = get(name);
  if (!/^\d{1,10}$/.test(value) || Number(value) > max) throw wrong(name, value);
  return Number(value);
}

function oneOf<const Value extends string>(get: Get, name: string, allowed: readonly Value[]): Value {
  const value = get(name);
  const found = allowed.find((candidate) => candidate === value);
  if (found === undefined) throw wrong(name, value);
  return found;
}

/** The address may hold a password, so a wrong one is not repeated. */
function readDatabaseUrl(text: string): string | undefined {
  if (text === "") return undefined;
  const url = URL.parse(text);
  if (url === null || !/^postgres(ql)?:$/.test(url.protocol)) {
    throw new SettingError(
      "DATABASE_URL must be a postgres:// address, such as postgres://user@host:5432/claviger",
    );
  }
  return text;
}

function dataFolder(setting: string, { env, isRoot }: ConfigSource): string {
  if (setting !== "") return setting;
  // systemd gives a colon-separated list; the first is the unit's main one.
  const [state] = (env.STATE_DIRECTORY ?? "").split(":");
  if (state) return state;
  return isRoot || existsSync(DEFAULT_ROOT_FOLDER) ? DEFAULT_ROOT_FOLDER : "claviger-data";
}

function readSecret(get: Get, env: ConfigSource["env"]): string | undefined {
  const value = get("CLAVIGER_SECRET");
  const path = get("CLAVIGER_SECRET_FILE");
  if (value !== "" && path !== "") {
    throw new SettingError("CLAVIGER_SECRET and CLAVIGER_SECRET_FILE are both given: leave one of them out");
  }
  if (value !== "") return value;
  if (path !== "") return readBounded(path, "CLAVIGER_SECRET_FILE");
  const credential = env.CREDENTIALS_DIRECTORY && join(env.CREDENTIALS_DIRECTORY, "claviger-secret");
  return credential && existsSync(credential)
    ? readBounded(credential, "The credential claviger-secret")
    : undefined;
}

function readBounded(path: string, what: string): string {
  try {
    if (statSync(path).size > FILE_LIMIT_BYTES) throw new SettingError(`${what} is too large: ${path}`);
    return readFileSync(path, "utf8");
  } catch (error) {
    if (error instanceof SettingError) throw error;
    throw new SettingError(
      `${what} cannot be read: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

/** Reads `NAME=value` lines; blank lines and those that begin with `#` are left out, quotes are taken off. */
function readSettingsFile(path: string | undefined): Map<string, string> {
  const settings = new Map<string, string>();
  if (path === undefined && !existsSync(DEFAULT_ENV_FILE)) return settings;
  const used = path ?? DEFAULT_ENV_FILE;
  for (const [index, text] of readBounded(used, "The settings file").split("\n").entries()) {
    const line = text.trim();
    if (line === "" || line.startsWith("#") || line.startsWith(";")) continue;
    const match = /^([A-Za-z_][A-Za-z0-9_]*)=(.*)$/.exec(line);
    if (match === null) throw new SettingError(`${used}, line ${index + 1}: it must be NAME=value`);
    const name = match[1] ?? "";
    settingOf(name);
    settings.set(name, unquoted(match[2] ?? ""));
  }
  return settings;
}

function unquoted(value: string): string {
  const match = /^(["'])(.*)\1$/.exec(value.trim());
  return match?.[2] ?? value.trim();
}

/** Lists every setting with the value in force and its source, for people. */

import { isRefusal, type Refusal } from "../base/refusal.ts";
import { maskDatabaseUrl, parseDatabaseUrl } from "../database/mod.ts";
import {
  type Config,
  type ConfigSource,
  createLookup,
  type FoundSetting,
  readConfig,
  SETTINGS,
} from "../installation/config/mod.ts";

/** A setting with the value in force and its source. */
interface EffectiveSetting {
  readonly name: string;
  /** Empty if the setting has no value; secrets in it are masked. */
  readonly value: string;
  /** `flag`, `environment`, `credential`, `default`, the path of the settings file, or the name of the unit. */
  readonly source: string;
}

/**
 * Lists every setting with its value and source, even if one of the values is wrong. Refuses only a settings file that
 * cannot be read.
 */
export function explainConfig(source: ConfigSource): readonly EffectiveSetting[] | Refusal {
  const read = readConfig(source);
  const config = isRefusal(read) ? undefined : read;
  let find: (name: string) => FoundSetting;
  try {
    find = createLookup(source);
  } catch (error) {
    if (isRefusal(read)) return read;
    throw error;
  }
  return SETTINGS.map(({ name, default: standard }) => {
    const { value, source: from } = find(name);
    if (from !== "default") return { name, value: masked(name, value), source: from };
    const found = config && foundElsewhere(name, config, source);
    return found ?? { name, value: standard, source: "default" };
  });
}

/** Finds a value that comes from somewhere else than the setting: from systemd's folders and credentials, or from the brand. */
function foundElsewhere(
  name: string,
  config: Config,
  { env, unit }: ConfigSource,
): EffectiveSetting | undefined {
  const credential = (value: string | undefined) =>
    value === undefined ? undefined : { name, value, source: "credential" };
  switch (name) {
    case "CLAVIGER_DATA_DIR":
      return {
        name,
        value: config.dataDir,
        source: env.STATE_DIRECTORY ? "STATE_DIRECTORY" : unit?.stateFolder ? unit.name : "default",
      };
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

/** Returns the value of a setting as others may see it: without a secret or a password. */
function masked(name: string, value: string): string {
  if (name === "CLAVIGER_SECRET") return MASK;
  if (!name.endsWith("_URL")) return value;
  // A wrong URL may have its password in any place.
  if (name === "DATABASE_URL") {
    const database = parseDatabaseUrl(value);
    return database === undefined ? MASK : maskDatabaseUrl(database, MASK);
  }
  const url = URL.parse(value);
  return url === null || url.username + url.password + url.search !== "" ? MASK : value;
}

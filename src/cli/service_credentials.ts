import { type ConfigSource, readConfig } from "../config/mod.ts";
import { findServing } from "../installation/mod.ts";
import { isRefusal } from "../refusal.ts";

/**
 * Adds the credentials that systemd gave to the running service of the data folder, so that a command that examines the
 * settings sees them too. A command that has its own credentials keeps them. With `of`, only a service of that user
 * counts.
 */
export function withServiceCredentials(source: ConfigSource, of?: number): ConfigSource {
  if (source.env.CREDENTIALS_DIRECTORY !== undefined) return source;
  const config = readConfig(source);
  const credentials = isRefusal(config) ? undefined : findServing(config.dataDir, of)?.credentials;
  if (credentials === undefined) return source;
  return { ...source, env: { ...source.env, CREDENTIALS_DIRECTORY: credentials } };
}

import { type ConfigSource, readConfig } from "../config/mod.ts";
import { findServing } from "../installation/mod.ts";
import { isRefusal } from "../refusal.ts";

/**
 * Adds the credentials that the running service of the data folder was handed: systemd gives them to the
 * service alone, and a command that looks at its settings would miss them. Those of the command's own go first.
 * `of` is the user whose service alone will do.
 */
export function withServiceCredentials(source: ConfigSource, of?: number): ConfigSource {
  if (source.env.CREDENTIALS_DIRECTORY !== undefined) return source;
  const config = readConfig(source);
  const credentials = isRefusal(config) ? undefined : findServing(config.dataDir, of)?.credentials;
  if (credentials === undefined) return source;
  return { ...source, env: { ...source.env, CREDENTIALS_DIRECTORY: credentials } };
}

import { resolve } from "node:path";
import type { GitHubAppSettings } from "../repository_token/mod.ts";
import type { ConfigSource, Get } from "./config_source.ts";
import { findCredential } from "./credentials.ts";
import { SettingError } from "./setting_error.ts";
import { settingOf } from "./settings.ts";

const NEEDED = [
  "CLAVIGER_GITHUB_APP_ID",
  "CLAVIGER_GITHUB_INSTALLATION_ID",
  "CLAVIGER_GITHUB_REPOSITORY",
] as const;

/**
 * Reads the settings of the GitHub App, all or none. Only the key may be missing: it can be a credential of the
 * service, and a command that reads the same settings file does not get credentials.
 */
export function readGitHubApp(get: Get, source: ConfigSource): GitHubAppSettings | undefined {
  const path = get("CLAVIGER_GITHUB_PRIVATE_KEY_FILE");
  const apiUrl = get("CLAVIGER_GITHUB_URL");
  const credential = findCredential("claviger-github-key", source);
  const found = credential.exists ? credential.path : undefined;
  const privateKeyFile = path === undefined ? found : resolve(source.workingFolder, path);
  const [appId, installationId, repository] = NEEDED.map(get);
  if (appId !== undefined && installationId !== undefined && repository !== undefined)
    return { appId, installationId, repository, apiUrl, privateKeyFile };
  const missing = NEEDED.filter((name) => get(name) === undefined);
  const hasUrl = apiUrl !== settingOf("CLAVIGER_GITHUB_URL").default;
  // If some settings cannot be seen, a credential without the other settings does not mean that they are missing.
  const isGiven = path !== undefined || hasUrl || (credential.exists && source.unseen === undefined);
  if (missing.length === NEEDED.length && !isGiven) return undefined;
  throw new SettingError(`Some settings of the GitHub App are given, but not ${missing.join(", ")}`);
}

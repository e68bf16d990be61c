import { resolve } from "node:path";
import type { GitHubAppSettings } from "../repository_token/mod.ts";
import type { ConfigSource } from "./config_source.ts";
import { findCredential } from "./credentials.ts";
import { SettingError, settingOf } from "./setting_error.ts";
import { type Get, matching, readApiUrl } from "./setting_values.ts";

/**
 * Reads the settings of the GitHub App, all or none. Only the key may be missing: it can be a credential of the
 * service, and a command that reads the same settings file does not get credentials.
 */
export function readGitHubApp(get: Get, source: ConfigSource): GitHubAppSettings | undefined {
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

/**
 * The repository token that the service hands out to installers with a valid key. It is either a token that the
 * operator stores, sealed at rest, or a token that a GitHub App mints, which is kept only in memory. Owns the table
 * `installer_token`.
 */

export {
  createGitHubAppSource,
  type GitHubAppSettings,
  type GitHubAppSource,
  openGitHubApp,
  tryGitHubApp,
} from "./github_app_source.ts";
export { clearInstallerToken, parseInstallerToken, setInstallerToken } from "./static_token.ts";
export { createTokenSource, type InstallerToken, type TokenSource } from "./token_source.ts";

/**
 * The repository token that the installer is given: sealed at rest, handed out to those who hold a key.
 * Owns `installer_token` and `secret_canary`.
 */
export { proveSecret } from "./canary.ts";
export { clearInstallerToken, parseInstallerToken, setInstallerToken } from "./static_token.ts";
export { createTokenSource, type InstallerToken, type TokenSource } from "./token_source.ts";

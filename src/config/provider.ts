import { resolve } from "node:path";
import type { ProviderSettings } from "../identity/mod.ts";
import type { ConfigSource, Get } from "./config_source.ts";
import { findCredential } from "./credentials.ts";
import { SettingError } from "./setting_error.ts";

/** Reads the settings of the identity provider, all or none. Reads no file. */
export function readProvider(get: Get, source: ConfigSource): ProviderSettings | undefined {
  const issuer = get("CLAVIGER_OIDC_ISSUER");
  const clientId = get("CLAVIGER_OIDC_CLIENT_ID");
  const secretPath = get("CLAVIGER_OIDC_CLIENT_SECRET_FILE");
  const name = get("CLAVIGER_OIDC_NAME");
  const caPath = get("CLAVIGER_OIDC_CA_FILE");
  const adminUrl = get("CLAVIGER_ADMIN_URL");
  const credential = findCredential("claviger-oidc-secret", source);
  const secretFile = secretPath ?? (credential.exists ? credential.path : undefined);
  if (issuer === undefined) {
    if ([clientId, secretPath, name, caPath].every((given) => given === undefined)) return undefined;
    throw new SettingError("Some settings of the identity provider are given, but not CLAVIGER_OIDC_ISSUER");
  }
  const needs = (what: string) =>
    new SettingError(`CLAVIGER_OIDC_ISSUER needs ${what}`, "CLAVIGER_OIDC_ISSUER");
  if (clientId === undefined) throw needs("CLAVIGER_OIDC_CLIENT_ID");
  if (adminUrl === undefined) throw needs("CLAVIGER_ADMIN_URL, the address to which the provider leads back");
  // A command that reads the same settings file does not get the credentials of the service.
  if (secretFile === undefined && source.unseen === undefined)
    throw needs("CLAVIGER_OIDC_CLIENT_SECRET_FILE or the systemd credential claviger-oidc-secret");
  return {
    issuer,
    clientId,
    secretFile: secretFile && resolve(source.workingFolder, secretFile),
    caFile: caPath && resolve(source.workingFolder, caPath),
    name: name ?? new URL(issuer).hostname,
    roles: get("CLAVIGER_OIDC_ROLES"),
    adminUrl,
  };
}

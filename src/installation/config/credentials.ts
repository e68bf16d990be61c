/**
 * Reads the settings that name a secret file: those of the root secret, the certificate with its key, the bucket, the
 * GitHub App and the identity provider.
 */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { isReadable } from "../../base/read_regular_file.ts";
import type { TlsFiles } from "../../base/tls/mod.ts";
import type { BucketSettings } from "../../models/bucket/mod.ts";
import type { GitHubAppSettings } from "../../models/repository_token/mod.ts";
import type { ProviderSettings } from "../../operators/identity/mod.ts";
import { readBounded } from "./bounded_file.ts";
import type { ConfigSource, Get } from "./config_source.ts";
import { settingOf } from "./find_setting.ts";
import { SettingError } from "./setting_error.ts";

export interface GivenSecret {
  readonly text: string;
  /** Where the secret was given, as text for messages. */
  readonly source: string;
}

/**
 * Finds a credential in the folder that systemd provides, else at the path that the unit names. `exists` tells whether
 * the file is there; it is false, and `path` only the name, if there is neither folder nor path.
 */
function findCredential(name: string, { env, unit }: ConfigSource) {
  const folder = env.CREDENTIALS_DIRECTORY;
  const path = folder ? join(folder, name) : (unit?.credentials.get(name) ?? name);
  return { path, exists: path !== name && existsSync(path) };
}

/**
 * Reads the paths of certificate and key, both or neither. The service checks the content of the files.
 *
 * The settings name the same two files for the service and for commands. If the service's user may not read one of them,
 * the service takes the copies that systemd passes on as credentials; without them its start refuses the files. So a
 * unit that has lost its credentials never serves http.
 */
export function readTls(get: Get, source: ConfigSource): TlsFiles | undefined {
  const { workingFolder } = source;
  const [cert, key] = [get("CLAVIGER_TLS_CERT"), get("CLAVIGER_TLS_KEY")];
  if ((cert === undefined) !== (key === undefined)) {
    const [given, missing] = cert === undefined ? ["KEY", "CERT"] : ["CERT", "KEY"];
    throw new SettingError(
      `CLAVIGER_TLS_${given} is given without CLAVIGER_TLS_${missing}: give both or neither`,
      `CLAVIGER_TLS_${given}`,
    );
  }
  const folder = source.env.CREDENTIALS_DIRECTORY;
  const isLoaded = (path: string) => [...(source.unit?.credentials.values() ?? [])].includes(path);
  const find = (certFile: string, keyFile: string): TlsFiles => ({
    certFile,
    keyFile,
    ...((isLoaded(keyFile) || (folder && certFile.startsWith(`${folder}/`))) && { isCopy: true }),
  });
  const certFile = findCredential("claviger-tls-cert", source);
  const keyFile = findCredential("claviger-tls-key", source);
  if (cert !== undefined && key !== undefined) {
    const named = [resolve(workingFolder, cert), resolve(workingFolder, key)] as const;
    // A missing or wrong file is readable in this sense: the start refuses it by its name.
    const isPassedOn = folder && certFile.exists && keyFile.exists && !named.every(isReadable);
    return isPassedOn ? find(certFile.path, keyFile.path) : find(...named);
  }
  return certFile.exists || keyFile.exists ? find(certFile.path, keyFile.path) : undefined;
}

/** Reads the settings of the bucket for model files; undefined if there is none. Reads no file. */
export function readBucket(get: Get, source: ConfigSource): BucketSettings | undefined {
  const [url, region] = [get("CLAVIGER_MODELS_S3"), get("CLAVIGER_MODELS_S3_REGION")];
  if (url === undefined) return undefined;
  const find = (path: string | undefined) => path && resolve(source.workingFolder, path);
  const credential = findCredential("claviger-models-s3", source);
  return {
    url,
    region,
    credentialsFile:
      find(get("CLAVIGER_MODELS_S3_CREDENTIALS_FILE")) ?? (credential.exists ? credential.path : undefined),
    caFile: find(get("CLAVIGER_MODELS_S3_CA_FILE")),
  };
}

/** Reads the root secret from its setting, its file or its credential; undefined if none of them is given. */
export function readSecret(get: Get, from: ConfigSource): GivenSecret | undefined {
  const text = get("CLAVIGER_SECRET");
  const path = get("CLAVIGER_SECRET_FILE");
  if (text !== undefined && path !== undefined) {
    throw new SettingError("CLAVIGER_SECRET and CLAVIGER_SECRET_FILE are both given: leave one of them out");
  }
  if (text !== undefined) return { text, source: "CLAVIGER_SECRET" };
  if (path !== undefined)
    return { text: readBounded(path, "CLAVIGER_SECRET_FILE"), source: `the file ${path}` };
  const credential = findCredential("claviger-secret", from);
  if (!credential.exists) return undefined;
  const source = "the credential claviger-secret";
  return { text: readBounded(credential.path, source), source };
}

const NEEDED_BY_APP = [
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
  const [appId, installationId, repository] = NEEDED_BY_APP.map(get);
  if (appId !== undefined && installationId !== undefined && repository !== undefined)
    return { appId, installationId, repository, apiUrl, privateKeyFile };
  const missing = NEEDED_BY_APP.filter((name) => get(name) === undefined);
  const hasUrl = apiUrl !== settingOf("CLAVIGER_GITHUB_URL").default;
  // If some settings cannot be seen, a credential without the other settings does not mean that they are missing.
  const isGiven = path !== undefined || hasUrl || (credential.exists && source.unseen === undefined);
  if (missing.length === NEEDED_BY_APP.length && !isGiven) return undefined;
  throw new SettingError(`Some settings of the GitHub App are given, but not ${missing.join(", ")}`);
}

/** Reads the settings of the identity provider, all or none. Reads no file. */
export function readProvider(get: Get, source: ConfigSource): ProviderSettings | undefined {
  const issuer = get("CLAVIGER_OIDC_ISSUER");
  const clientId = get("CLAVIGER_OIDC_CLIENT_ID");
  const secretPath = get("CLAVIGER_OIDC_CLIENT_SECRET_FILE");
  const name = get("CLAVIGER_OIDC_NAME");
  const caPath = get("CLAVIGER_OIDC_CA_FILE");
  const groupsClaim = get("CLAVIGER_OIDC_GROUPS_CLAIM");
  const scopes = get("CLAVIGER_OIDC_SCOPES");
  const adminUrl = get("CLAVIGER_ADMIN_URL");
  const credential = findCredential("claviger-oidc-secret", source);
  const secretFile = secretPath ?? (credential.exists ? credential.path : undefined);
  if (issuer === undefined) {
    const hasClaim = groupsClaim !== settingOf("CLAVIGER_OIDC_GROUPS_CLAIM").default;
    const given = [clientId, secretPath, name, caPath, scopes];
    if (!hasClaim && given.every((each) => each === undefined)) return undefined;
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
    groupsClaim,
    scopes,
    adminUrl,
  };
}

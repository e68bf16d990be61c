/** Reads the settings that name a secret file: the root secret, and the certificate with its key. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { BucketSettings } from "../bucket/mod.ts";
import type { TlsFiles } from "../tls/mod.ts";
import { readBounded } from "./bounded_file.ts";
import type { ConfigSource, Get } from "./config_source.ts";
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
export function findCredential(name: string, { env, unit }: ConfigSource) {
  const folder = env.CREDENTIALS_DIRECTORY;
  const path = folder ? join(folder, name) : (unit?.credentials.get(name) ?? name);
  return { path, exists: path !== name && existsSync(path) };
}

/** Reads the paths of certificate and key, both or neither. The service checks the content of the files. */
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
  if (cert !== undefined && key !== undefined)
    return find(resolve(workingFolder, cert), resolve(workingFolder, key));
  const certFile = findCredential("claviger-tls-cert", source);
  const keyFile = findCredential("claviger-tls-key", source);
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

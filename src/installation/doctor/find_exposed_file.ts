import { statSync } from "node:fs";
import { dirname, isAbsolute, resolve } from "node:path";
import { findClosedFolder } from "../../base/host/mod.ts";
import { type ConfigSource, createLookup } from "../config/mod.ts";

/** The settings that name the file of a secret. */
const SECRET_FILES = ["CLAVIGER_SECRET_FILE", "CLAVIGER_TLS_KEY", "CLAVIGER_GITHUB_PRIVATE_KEY_FILE"];
const PASSWORD = /:\/\/[^/@]*:[^@]|[?&]password=/;
const ANYBODY = { uid: -1, gid: -1 };

/**
 * Finds the file of a secret, or the settings file with a secret in it, that every user of the host may read; undefined
 * if there is none.
 */
export function findExposedFile(source: ConfigSource): string | undefined {
  const find = createLookup(source);
  const { workingFolder } = source;
  const url = find("DATABASE_URL");
  const secrets = [find("CLAVIGER_SECRET"), ...(PASSWORD.test(url.value) ? [url] : [])];
  // The source of a setting is a word if it is no settings file.
  const settingsFiles = secrets.map(({ source }) => source).filter((path) => isAbsolute(path));
  const secretFiles = SECRET_FILES.map((name) => find(name).value).filter((path) => path !== "");
  return [...settingsFiles, ...secretFiles].map((path) => resolve(workingFolder, path)).find(isOpenToAll);
}

function isOpenToAll(path: string): boolean {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat?.isFile() !== true || (stat.mode & 0o004) === 0) return false;
  return findClosedFolder(dirname(path), ANYBODY) === undefined;
}

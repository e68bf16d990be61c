/** Reads the settings file. */
import { statSync } from "node:fs";
import { hasCode } from "../../base/system_error.ts";
import { readBounded, UnreadableFile } from "./bounded_file.ts";
import { describeUnknown, findSetting } from "./find_setting.ts";
import { SettingError } from "./setting_error.ts";

interface SettingsFileSource {
  /** By default `/etc/claviger/claviger.env`, if it exists. */
  readonly envFile?: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The unit's settings files, in place of the default file; a later file overrides an earlier file. */
  readonly unitFiles?: readonly string[] | undefined;
}

interface FileSetting {
  readonly value: string;
  readonly path: string;
  /** File and line, as text for messages. */
  readonly place: string;
}

/** The settings file of an installation whose unit names no other. */
export const DEFAULT_ENV_FILE = "/etc/claviger/claviger.env";

/**
 * Reads `NAME=value` lines in the format of systemd's EnvironmentFile: blank lines and lines that begin with
 * `#` or `;` are skipped, quotes around a value are removed.
 */
export function readSettingsFile(source: SettingsFileSource): ReadonlyMap<string, FileSetting> {
  const { envFile, unitFiles = [] } = source;
  const standard = unitFiles.length > 0 ? unitFiles : [DEFAULT_ENV_FILE];
  const paths = envFile === undefined ? standard.filter((path) => !isMissing(path)) : [envFile];
  return new Map(paths.flatMap((path) => [...readOne(path, source)]));
}

/** Also returns false if this user may not look into the folder. Reading the file then fails with that reason. */
function isMissing(path: string): boolean {
  try {
    statSync(path);
    return false;
  } catch (error) {
    return hasCode(error, "ENOENT") || hasCode(error, "ENOTDIR");
  }
}

function readOne(path: string, { envFile, env }: SettingsFileSource): Map<string, FileSetting> {
  const settings = new Map<string, FileSetting>();
  let text: string;
  try {
    text = readBounded(path, "the settings file");
  } catch (error) {
    // Not an error: systemd read the file as root and passed its settings to a user who may not read it.
    if (error instanceof UnreadableFile && envFile === undefined && env.STATE_DIRECTORY) return settings;
    throw error;
  }
  for (const [index, raw] of text.split("\n").entries()) {
    const line = raw.trim();
    if (line === "" || line.startsWith("#") || line.startsWith(";")) continue;
    const match = /^([A-Za-z_][A-Za-z0-9_]*)=(.*)$/.exec(line);
    if (match === null) throw new SettingError(`${path}, line ${index + 1}: it must be NAME=value`);
    const [, name = "", value = ""] = match;
    const place = `${path}, line ${index + 1}`;
    if (findSetting(name) === undefined)
      throw new SettingError(`${describeUnknown(name)}; it is set in ${place}`);
    settings.set(name, { value: unquoted(value), path, place });
  }
  return settings;
}

function unquoted(value: string): string {
  const match = /^(["'])(.*)\1$/.exec(value.trim());
  return match?.[2] ?? value.trim();
}

/**
 * Finds a setting where it was given: in a flag, the environment or the settings file, in this order of precedence.
 */
import { findSetting, parseSetting, settingOf } from "./find_setting.ts";
import type { SettingError } from "./setting_error.ts";
import type { SettingName, SettingValue } from "./settings.ts";
import { readSettingsFile } from "./settings_file.ts";

/** Why this process may be unable to see all settings of the service, and the remedy. */
export interface Unseen {
  readonly why: string;
  readonly remedy: string;
}

export interface ConfigSource {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The values of flags, by the names of their settings. */
  readonly flags?: Readonly<Record<string, string | undefined>>;
  /** The settings file; by default `/etc/claviger/claviger.env`, if it exists. */
  readonly envFile?: string | undefined;
  readonly workingFolder: string;
  /** Whether the process runs as root; the default data folder depends on it. */
  readonly isRoot: boolean;
  /** What the service's unit gives to the service, for commands on the same installation. */
  readonly unit?: UnitSettings | undefined;
  /** A unit that does not apply, because the command has a settings file or credentials of its own. */
  readonly otherUnit?: UnitSettings | undefined;
  /** Set if the service may have settings that this process cannot see. */
  readonly unseen?: Unseen | undefined;
  /** Set if the service may have another data folder than the default one, and this process cannot see which. */
  readonly unseenFolder?: Unseen | undefined;
}

/** The data folder, settings files and credentials that a systemd unit gives to its service. */
export interface UnitSettings {
  /** The unit's name, as text for messages. */
  readonly name: string;
  /** The folder of `StateDirectory=`, absolute. */
  readonly stateFolder?: string | undefined;
  /**
   * The settings in `Environment=`, by name, as units before 0.5 had them. Only the service has them: no command reads
   * them, but none works on another installation because of that (`cli/old_unit.ts`).
   */
  readonly oldSettings: ReadonlyMap<string, string>;
  /** The settings files to read in place of the default file; a later file overrides an earlier file. */
  readonly envFiles: readonly string[];
  /** The paths of the credentials, by name. */
  readonly credentials: ReadonlyMap<string, string>;
  /** The other services of a template. */
  readonly siblings: readonly UnitSettings[];
}

/** A setting's value and the place where it was found. */
export interface FoundSetting {
  readonly value: string;
  /** `flag`, `environment`, `default`, or the path of the settings file. */
  readonly source: string;
  /** The source as the end of a refusal; empty for a default. */
  readonly origin: string;
}

/**
 * Reads the settings files and returns a function that finds a setting by its name: first in the flags, then in
 * the environment, the settings files, and the defaults.
 */
export function createLookup(source: ConfigSource): (name: string) => FoundSetting {
  const file = readSettingsFile({ ...source, unitFiles: source.unit?.envFiles });
  return (name) => {
    const flag = source.flags?.[name];
    if (flag !== undefined)
      return { value: flag, source: "flag", origin: `; it was given by ${toFlag(name)}` };
    const inFile = file.get(name);
    const places = [
      { value: source.env[name], source: "environment", place: environmentOf(source) },
      { value: inFile?.value, source: inFile?.path ?? "", place: inFile?.place },
    ];
    for (const { value, source: from, place } of places) {
      // An empty value counts as not set, as in systemd and in the shell's `${NAME:-…}`.
      if (value) return { value, source: from, origin: `; it is set in ${place}` };
    }
    return { value: settingOf(name).default, source: "default", origin: "" };
  };
}

/** Returns the value of a setting, as its rule allows it; undefined if it is not set and has no default. */
export type Get = <Name extends SettingName>(name: Name) => SettingValue<Name>;

/** Reads the settings file and returns a function that reads a setting. It throws a {@linkcode SettingError} for a wrong value. */
export function createReader(source: ConfigSource): Get {
  const find = createLookup(source);
  return (name) => parseSetting(name, find(name).value);
}

/** Returns the end of a refusal that names the place of the wrong setting, so that the operator corrects that place. */
export function tellOrigin({ setting }: SettingError, source: ConfigSource): string {
  if (setting === undefined) return "";
  if (findSetting(setting) === undefined) return `; it is set in ${environmentOf(source)}`;
  return createLookup(source)(setting).origin;
}

/** Names the source of the environment: systemd reads the settings file of a service and passes it as environment. */
function environmentOf({ env }: ConfigSource): string {
  return env.NOTIFY_SOCKET === undefined
    ? "the environment"
    : "the unit, or in a file of its EnvironmentFile=";
}

/** Returns the flag of a setting: `--port` for `CLAVIGER_PORT`. */
function toFlag(name: string): string {
  return `--${name
    .replace(/^CLAVIGER_/, "")
    .toLowerCase()
    .replaceAll("_", "-")}`;
}

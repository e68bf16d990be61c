/** Errors about settings, in the words of the table of settings. */
import { findNearest } from "./find_nearest.ts";
import { findSetting, SETTINGS, type Setting } from "./settings.ts";

/** Thrown while settings are read. `readConfig` turns it into a refusal. */
export class SettingError extends Error {
  /** The wrong setting, if there is only one: the refusal then names the place where it is set. */
  readonly setting: string | undefined;

  constructor(message: string, setting?: string) {
    super(message);
    this.setting = setting;
  }
}

/** Returns a sentence that says that a name is not a setting, and which setting is nearest. */
export function unknown(name: string): string {
  const nearest = findNearest(
    name.toUpperCase(),
    SETTINGS.map((setting) => setting.name),
    withoutPrefix,
  );
  const known = "all settings are listed by `claviger guide settings`";
  return `${name} is not a setting: ${nearest === undefined ? "" : `the nearest is ${nearest}; `}${known}`;
}

function withoutPrefix(name: string): string {
  return name.replace(/^CLAVIGER_/, "");
}

/** Finds a setting in the table; throws a {@linkcode SettingError} for a name that is not a setting. */
export function settingOf(name: string): Setting {
  const setting = findSetting(name);
  if (setting !== undefined) return setting;
  throw new SettingError(unknown(name), name);
}

/** Returns a sentence with the allowed values of a setting. */
export function demand(name: string): string {
  return `${name} must be ${settingOf(name).allowed}`;
}

/** Returns an error that also shows the wrong value. Only for settings that cannot hold a secret. */
export function wrong(name: string, value: string): SettingError {
  const shown = value.length <= 100 ? value : `${value.slice(0, 100)}…`;
  return new SettingError(`${demand(name)}, not ${JSON.stringify(shown)}`, name);
}

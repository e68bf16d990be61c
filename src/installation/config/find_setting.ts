/** Finds a setting in the table by its name, and reads the text of its value by its rule. */
import { findNearest } from "./find_nearest.ts";
import { SettingError } from "./setting_error.ts";
import { SETTINGS, type Setting, type SettingName, type SettingValue } from "./settings.ts";

/** Finds a setting in the table; undefined for a name that is not a setting. */
export function findSetting(name: string): Setting | undefined {
  return SETTINGS.find((setting) => setting.name === name);
}

/** Finds a setting in the table; throws a {@linkcode SettingError} for a name that is not a setting. */
export function settingOf(name: string): Setting {
  const setting = findSetting(name);
  if (setting !== undefined) return setting;
  throw new SettingError(describeUnknown(name), name);
}

/** Returns a sentence that says that a name is not a setting, and which setting is nearest. */
export function describeUnknown(name: string): string {
  const names = SETTINGS.map((setting) => setting.name);
  const nearest = findNearest(name.toUpperCase(), names, (each) => each.replace(/^CLAVIGER_/, ""));
  const known = "all settings are listed by `claviger guide settings`";
  return `${name} is not a setting: ${nearest === undefined ? "" : `the nearest is ${nearest}; `}${known}`;
}

/** Returns the value of a setting's text; undefined for an empty text without a default. Throws a {@linkcode SettingError} for a wrong text. */
export function parseSetting<Name extends SettingName>(name: Name, text: string): SettingValue<Name> {
  const { default: standard, expects, parse, ending } = settingOf(name);
  // An empty text is wrong only for a setting with a default.
  if (text === "" && standard === "") return undefined as SettingValue<Name>;
  const value = parse(text) as SettingValue<Name>;
  if (value !== undefined) return value;
  const shown = text.length <= 100 ? text : `${text.slice(0, 100)}…`;
  const end = ending?.(text) ?? `, not ${JSON.stringify(shown)}`;
  throw new SettingError(`${name} must be ${expects}${end}`, name);
}

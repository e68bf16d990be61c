/** What is wrong with a setting, in the words of the table of settings. */
import { findNearest } from "./find_nearest.ts";
import { findSetting, SETTINGS, type Setting } from "./settings.ts";

/** Thrown inside while settings are read; callers of `readConfig` get a refusal. */
export class SettingError extends Error {
  /** The one that is wrong, where it is one: who set it is part of the refusal. */
  readonly setting: string | undefined;

  constructor(message: string, setting?: string) {
    super(message);
    this.setting = setting;
  }
}

/** Says that a name is no setting, and which one is nearest to it. */
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

/** The row of the table; says that a name is no setting by throwing. */
export function settingOf(name: string): Setting {
  const setting = findSetting(name);
  if (setting !== undefined) return setting;
  throw new SettingError(unknown(name), name);
}

/** What a setting must be. */
export function demand(name: string): string {
  return `${name} must be ${settingOf(name).allowed}`;
}

/** Says what it is not, too: for settings that cannot hold a secret. */
export function wrong(name: string, value: string): SettingError {
  const shown = value.length <= 100 ? value : `${value.slice(0, 100)}…`;
  return new SettingError(`${demand(name)}, not ${JSON.stringify(shown)}`, name);
}

/** What is wrong with a setting, in the words of the table of settings. */
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
  const nearest = findNearest(name);
  const known = "all settings are shown by `claviger config check --env-file /dev/null`";
  return `${name} is not a setting: ${nearest === undefined ? "" : `the nearest is ${nearest}; `}${known}`;
}

/** The setting that a misspelt name means; undefined where none is like it. */
function findNearest(name: string): string | undefined {
  const given = withoutPrefix(name.toUpperCase()).slice(0, 64);
  let nearest: string | undefined;
  let least = Math.max(1, Math.floor(given.length / 3)) + 1;
  for (const setting of SETTINGS) {
    const edits = countEdits(given, withoutPrefix(setting.name));
    if (edits < least) [nearest, least] = [setting.name, edits];
  }
  return nearest;
}

function withoutPrefix(name: string): string {
  return name.replace(/^CLAVIGER_/, "");
}

/** How many letters must be inserted, removed or replaced, or exchanged with the next, to make one of the other. */
function countEdits(from: string, to: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let row = 1; row <= from.length; row++) {
    const next = [row];
    for (let column = 1; column <= to.length; column++) {
      const isSame = from[row - 1] === to[column - 1];
      const isExchanged = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      next[column] = Math.min(
        (last[column] ?? 0) + 1,
        (next[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (isSame ? 0 : 1),
        isExchanged ? (beforeLast[column - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    [beforeLast, last] = [last, next];
  }
  return last[to.length] ?? 0;
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

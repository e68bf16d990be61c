/**
 * Tells of a unit with settings in `Environment=`, as versions before 0.5 printed it: a warning of every command that
 * found a setting there, and a finding of `doctor`.
 *
 * Goes in 0.6, with its calls, with what `grep -rin "goes in 0.6" src test` finds, and with what the pages `systemd` and
 * `troubleshooting` say of it.
 */
import { escapeControls } from "../base/text/mod.ts";
import {
  type ConfigSource,
  createLookup,
  DEFAULT_ENV_FILE,
  findSetting,
} from "../installation/config/mod.ts";
import { type CheckResult, warn } from "../installation/doctor/mod.ts";
import { masked } from "./explain_config.ts";
import type { Invocation } from "./invocation.ts";

interface OldUnit {
  readonly name: string;
  /** The names of all settings in `Environment=`. */
  readonly settings: readonly string[];
  /** The settings that are in force from there. A secret or unusual value is undefined. */
  readonly moves: readonly { readonly name: string; readonly value: string | undefined }[];
  /** Where to move them, as text for messages. */
  readonly place: string;
}

/** A value that means the same in the settings file with no quotes around it. */
const PLAIN = /^[^\s"'\\\p{C}]([^"'\\\p{C}]*[^\s"'\\\p{C}])?$/u;

/** Finds the settings in `Environment=` of the unit; undefined if there are none. The settings must be valid. */
function findOldUnit(source: ConfigSource): OldUnit | undefined {
  const { unit } = source;
  const settings = Object.keys(unit?.env ?? {}).filter((name) => findSetting(name) !== undefined);
  if (unit === undefined || settings.length === 0) return undefined;
  const find = createLookup(source);
  const moves = settings
    .filter((name) => find(name).source === unit.name)
    .map((name) => {
      const { value } = find(name);
      return { name, value: PLAIN.test(value) && masked(name, value) === value ? value : undefined };
    });
  // The last file of a service of the template is its own, which no other service reads.
  const isOfTemplate = unit.name.includes("@");
  const file = unit.envFiles.at(isOfTemplate ? -1 : 0) ?? DEFAULT_ENV_FILE;
  const place = isOfTemplate ? `${file} and that of each other service of the template` : file;
  return { name: unit.name, settings, moves, place };
}

/** Warns if a setting was found in `Environment=`: names unit and file, and prints the lines to move. */
export function warnOfOldUnit({ err }: Invocation, source: ConfigSource): void {
  const unit = findOldUnit(source);
  if (unit === undefined || unit.moves.length === 0) return;
  const lines = unit.moves.map(({ name, value }) =>
    value === undefined
      ? `${name}=, with the value that \`systemctl cat ${unit.name}\` shows`
      : `${name}=${value}`,
  );
  const what = `${unit.name} has settings in Environment=, which commands of version 0.6 will not read`;
  const remedy = `Put these lines into ${unit.place}, then print the unit again (\`claviger guide systemd\`)`;
  err(`claviger: ${what}. ${remedy}:\n${lines.map((line) => `  ${escapeControls(line)}\n`).join("")}`);
}

/** Returns the finding of a unit with settings in `Environment=`; undefined for any other unit. */
export function examineOldUnit(source: ConfigSource): CheckResult | undefined {
  const unit = findOldUnit(source);
  if (unit === undefined) return undefined;
  const lines = unit.moves.map(({ name, value }) => `\`${name}=${value ?? "…"}\``);
  const move = lines.length === 0 ? "" : `put ${lines.join(", ")} into ${unit.place}, then `;
  return warn(
    `${unit.name} has settings in Environment=, which commands of version 0.6 will not read: ${unit.settings.join(", ")}`,
    `${move}print the unit again: \`claviger guide systemd\``,
  );
}

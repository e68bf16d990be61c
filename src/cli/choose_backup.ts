/**
 * Shows the backups of a folder, so that a person chooses one. The newest one is chosen for people only if nobody can lose
 * keys by it: an installation that lost its data and began anew makes backups, too, and those come last.
 */
import { statSync } from "node:fs";
import { join, resolve } from "node:path";
import { HOUR_MS } from "../base/calendar.ts";
import { quoteShellWord } from "../base/quote_shell_word.ts";
import { counted } from "../base/render_count.ts";
import { FILE_REASONS, reasonOf } from "../base/system_error.ts";
import {
  countSavedKeys,
  type FoundBackup,
  installationOf,
  isWhole,
  listBackups,
} from "../installation/backup/mod.ts";
import type { Invocation } from "./invocation.ts";
import type { Printer } from "./print.ts";
import { CommandRefused } from "./run.ts";

interface ListedBackup extends FoundBackup {
  /** Undefined if a large backup of an earlier format does not tell. */
  readonly keys: number | undefined;
}

/** Tells whether the argument of a command is a folder: by its end, or because it exists. */
export function isFolderOfBackups({ workingFolder }: Invocation, path: string): boolean {
  if (path === "-" || path.endsWith("/")) return path !== "-";
  try {
    return statSync(resolve(workingFolder, path)).isDirectory();
  } catch {
    // Whoever opens the file says what is wrong with its path.
    return false;
  }
}

/** Prints the backups of a folder, the newest last, and the command that restores the newest, or why to look first. */
export async function showBackups(invocation: Invocation, given: string, print: Printer): Promise<void> {
  const folder = resolve(invocation.workingFolder, given);
  const { backups, unreadable } = await list(folder);
  const rows = backups.map(({ name, head, keys }) => ({
    day: head.made_at.slice(0, 10),
    keys: keys ?? "unknown",
    installation: installationOf(head)?.slice(0, 8) ?? "unknown",
    file: isWhole(head) ? name : `${name} (lacks ${counted(head.missing_models?.length ?? 0, "model file")})`,
  }));
  const doubt = findDoubt({ backups, unreadable }, invocation.clock.now());
  print.table(rows, {
    folder,
    newest_is_safe: doubt === undefined,
    backups: backups.map(({ name, head, keys, bytes }) => ({
      file: join(folder, name),
      made_at: head.made_at,
      keys: keys ?? null,
      installation: installationOf(head) ?? null,
      claviger: head.claviger,
      with_secret: head.secret,
      bytes,
      missing_models: head.missing_models ?? [],
    })),
    unreadable: unreadable.map(({ name, why }) => ({ file: join(folder, name), why })),
  });
  for (const { name, why } of unreadable) print.warn(`${join(folder, name)} cannot be read: ${why}`);
  const commandOf = ({ name }: ListedBackup) => renderCommand(invocation, given, join(folder, name));
  const newest = backups.at(-1);
  if (newest === undefined) return;
  if (doubt === undefined) return print.line(`To restore the newest: ${commandOf(newest)}`);
  print.line(`Choose one yourself: ${doubt.why}`);
  for (const backup of doubt.choices) print.line(`  ${commandOf(backup)}`);
}

/** Returns the path of the newest backup of a folder; ends the command if a person has to choose. */
export async function chooseNewest(invocation: Invocation, given: string): Promise<string> {
  const folder = resolve(invocation.workingFolder, given);
  const listed = await list(folder);
  const doubt = findDoubt(listed, invocation.clock.now());
  const newest = listed.backups.at(-1);
  if (doubt === undefined && newest !== undefined) return join(folder, newest.name);
  throw new CommandRefused(
    `Cannot choose a backup of ${folder}: ${doubt?.why}; \`claviger restore ${folder}/\` lists all, and you name one`,
  );
}

interface Listed {
  readonly backups: readonly ListedBackup[];
  readonly unreadable: readonly { readonly name: string; readonly why: string }[];
}

async function list(folder: string): Promise<Listed> {
  const { found, unreadable } = await listBackups(folder).catch((error) => {
    throw new CommandRefused(`Cannot read the folder of backups ${folder}: ${reasonOf(error, REASONS)}`);
  });
  if (found.length + unreadable.length === 0)
    throw new CommandRefused(
      `There is no backup in ${folder}: name the folder that \`claviger backup\` wrote to`,
    );
  const backups: ListedBackup[] = [];
  for (const each of found) backups.push({ ...each, keys: await countSavedKeys(folder, each) });
  return { backups, unreadable };
}

const REASONS = { ...FILE_REASONS, ENOENT: "it does not exist", ENOTDIR: "it is a file" };

interface Doubt {
  readonly why: string;
  readonly choices: readonly ListedBackup[];
}

/** Returns why a person has to choose among the backups; undefined if the newest one is the right one. */
function findDoubt({ backups, unreadable }: Listed, now: Date): Doubt | undefined {
  const newest = backups.at(-1);
  const [bad] = unreadable;
  if (bad !== undefined)
    return { why: `${bad.name} cannot be read (${bad.why})`, choices: backups.slice(-1) };
  if (newest === undefined) return { why: "it has none", choices: [] };
  const most = backups.reduce((a, b) => ((b.keys ?? 0) >= (a.keys ?? 0) ? b : a));
  const keysOf = ({ keys }: ListedBackup) =>
    keys === undefined ? "an unknown number of keys" : counted(keys, "key");
  const describe = (each: ListedBackup) =>
    `${each.name} of ${each.head.made_at.slice(0, 10)} has ${keysOf(each)}`;
  const isUncertain = newest.keys === 0 && backups.some(({ keys }) => keys === undefined);
  if (isUncertain || (newest.keys !== undefined && newest.keys < (most.keys ?? 0))) {
    const other = isUncertain ? backups.findLast(({ keys }) => keys === undefined) : most;
    if (other !== undefined)
      return { why: `the newest, ${describe(newest)}, and ${describe(other)}`, choices: [other, newest] };
  }
  const installations = new Map(backups.map((each) => [installationOf(each.head), each]));
  installations.delete(undefined);
  if (installations.size > 1)
    return {
      why: `the backups are of ${installations.size} installations`,
      choices: [...installations.values()],
    };
  if (Date.parse(newest.head.made_at) > now.getTime() + HOUR_MS) {
    const why = `the newest, ${newest.name}, was made in the future, so a clock was wrong`;
    return { why, choices: backups.slice(-2) };
  }
  return undefined;
}

/** Returns the command that was typed with a file in place of the folder. */
function renderCommand({ programName, args = [] }: Invocation, given: string, file: string): string {
  const words = args.includes(given) ? args.map((word) => (word === given ? file : word)) : [...args, file];
  return `\`${[programName, ...words].map(quoteShellWord).join(" ")}\``;
}

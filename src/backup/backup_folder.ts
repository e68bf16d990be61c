/**
 * A folder of backups: files such as `claviger-2026-11-27T034701Z.tar.zst`, named by the time (UTC) of their snapshot.
 * Beside them the folder `models` keeps each model file once for all of them.
 *
 * The order makes every kill and every full disk harmless. A backup gets its name after its model files are there and
 * after it was read again. Only then earlier backups are removed, and after them the model files that no backup names.
 * One process at a time works in the folder: otherwise it could remove a model file that a backup of another one needs.
 */
import { existsSync, readdirSync, realpathSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { toTimestamp } from "../calendar.ts";
import type { DatabaseAddress } from "../database/mod.ts";
import { isForeignPath } from "../host/mod.ts";
import { type ModelsPlace, modelsFolderOf, prepareFolder, removeUnneeded } from "../models/mod.ts";
import type { Platform } from "../platform/mod.ts";
import { isRefusal, type Refusal } from "../refusal.ts";
import { syncPath } from "../sync_path.ts";
import { reasonOf } from "../system_error.ts";
import { BackupFailure } from "./_errors.ts";
import { explain } from "./_files.ts";
import type { Head } from "./format.ts";
import { type KeepRule, selectKept } from "./keep_rule.ts";
import { readHead, toRefusal } from "./read_backup.ts";
import { type Backup, type BackupOptions, writeBackup } from "./write_backup.ts";

export interface FolderOptions extends Omit<BackupOptions, "path" | "replace" | "besideFolder"> {
  /** Made if it is missing. */
  readonly folder: string;
  readonly models: ModelsPlace;
  /** Which backups stay; without it, all. */
  readonly keep: KeepRule | undefined;
  readonly tryLock: Platform["tryLock"];
}

export interface FolderBackup extends Backup {
  readonly path: string;
  readonly removed: Awaited<ReturnType<typeof removeOld>>;
}

/** A data folder has at least one of these, and model files that no backup names. */
const OF_DATA_FOLDER = ["lock", "postgres", "secret"];

/** Adds a backup to a folder, and then removes those that `keep` does not keep. */
export async function addBackup(
  address: DatabaseAddress,
  { folder, keep, tryLock, ...options }: FolderOptions,
): Promise<FolderBackup | Refusal> {
  const besideFolder = modelsFolderOf({ dataDir: folder });
  const { models, now } = options;
  const modelsFolder = modelsFolderOf(models);
  try {
    const cannotWrite = `Cannot write into ${folder}`;
    const lock = await explain(cannotWrite, async () => {
      demandOwnPath(besideFolder);
      if (OF_DATA_FOLDER.some((name) => existsSync(join(folder, name))))
        throw new BackupFailure(`${folder} is a data folder; choose another folder`);
      const made = await mkdir(folder, { recursive: true, mode: 0o700 });
      if (made !== undefined) await syncPath(dirname(made));
      // Another user may have made it after the first look.
      demandOwnPath(besideFolder);
      return tryLock(join(folder, ".lock"));
    });
    if (lock === undefined)
      throw new BackupFailure(
        `another backup into ${folder} is running, or its file system has no locks; try again when it has ended`,
      );
    try {
      const path = join(folder, nameOf(now));
      await explain(cannotWrite, async () => {
        await prepareFolder(besideFolder, now);
        if (existsSync(modelsFolder) && realpathSync(modelsFolder) === realpathSync(besideFolder))
          throw new BackupFailure(`${folder} is the data folder itself; choose another folder`);
        if (existsSync(path)) throw new BackupFailure(`${path} was made in the same second; try again`);
      });
      // `replace`, because not every file system has the hard links with which a file replaces no other.
      const written = await writeBackup(address, { ...options, path, replace: true, besideFolder });
      if (isRefusal(written)) return written;
      const removed = await explain(`Saved ${path}, but cannot remove old files of ${folder}`, () =>
        removeOld(folder, keep, written.head),
      );
      return { ...written, path, removed };
    } finally {
      lock.release();
    }
  } catch (error) {
    return toRefusal(error, folder, "back up");
  }
}

/** Refuses root a folder in which another user could put a link: root would write or delete where the link leads. */
function demandOwnPath(besideFolder: string): void {
  if (!isForeignPath(join(besideFolder, "any"))) return;
  throw new BackupFailure(
    `another user can change what is in ${dirname(besideFolder)} or above it, and root could be led elsewhere; run this ` +
      "as that user, or choose another folder",
  );
}

/**
 * Removes earlier backups of this installation that `keep` does not keep, and then the model files nobody needs. Warns of
 * files that cannot be read: nobody knows what they need, so every model file stays.
 */
async function removeOld(folder: string, keep: KeepRule | undefined, newest: Head) {
  if (keep === undefined) return { backups: 0, models: 0, warnings: [] };
  const { found, warnings } = await listBackups(folder);
  // A backup of the future was made with a wrong clock. If it counted, it would displace the backups of now.
  const own = found.filter(
    ({ name, head: { beside, made_at } }) =>
      beside?.installation === newest.beside?.installation &&
      name === nameOf(new Date(made_at)) &&
      made_at <= newest.made_at,
  );
  const timeOf = ({ head }: (typeof own)[number]) => Date.parse(head.made_at);
  const kept = selectKept(own.map(timeOf), keep);
  const old = own.filter((each) => !kept.has(timeOf(each)));
  for (const { name } of old) await rm(join(folder, name));
  if (old.length > 0) await syncPath(folder);

  const left = found.filter((each) => !old.includes(each));
  const needed = left.flatMap(({ head }) => head.beside?.files ?? []).map(({ sha256 }) => sha256);
  const models =
    warnings.length > 0 ? 0 : await removeUnneeded(modelsFolderOf({ dataDir: folder }), new Set(needed));
  return { backups: old.length, models, warnings };
}

function nameOf(at: Date): string {
  return `claviger-${toTimestamp(at).replaceAll(":", "")}.tar.zst`;
}

/** Lists the backups in a folder, also those that an operator renamed, and warns of those that cannot be read. */
async function listBackups(folder: string) {
  const found: { readonly name: string; readonly head: Head }[] = [];
  const warnings: string[] = [];
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const { name } = entry;
    if (!entry.isFile() || !name.endsWith(".tar.zst")) continue;
    try {
      found.push({ name, head: await readHead(join(folder, name)) });
    } catch (error) {
      const what = `${join(folder, name)} cannot be used (${reasonOf(error)})`;
      warnings.push(`${what}, so no model file was removed: remove it, or move it away`);
    }
  }
  return { found, warnings };
}

/**
 * A folder of backups: files such as `claviger-2026-11-27T034701Z.tar.zst`, named by the time (UTC) of their snapshot.
 * Beside them the folder `models` keeps each model file once for all of them.
 *
 * The order makes every kill and every full disk harmless. A backup gets its name after its model files are there and
 * after it was read again. Only then earlier backups are removed, and after them the model files that no backup names.
 * One process at a time works in the folder: otherwise it could remove a model file that a backup of another one needs.
 *
 * An installation whose data was lost and that began anew looks like a new one. Its backups must not come after the good
 * ones, as if nothing had happened: {@linkcode admit} refuses them.
 */
import { existsSync, realpathSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { toTimestamp } from "../../base/calendar.ts";
import { DATA_FOLDER_NAMES, isForeignPath } from "../../base/host/mod.ts";
import type { Platform } from "../../base/platform/mod.ts";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { syncPath } from "../../base/sync_path.ts";
import type { DatabaseAddress } from "../../database/mod.ts";
import { type ModelsPlace, modelsFolderOf, prepareFolder, removeUnneeded } from "../../models/mod.ts";
import { admit } from "./_admit.ts";
import { BackupFailure } from "./_errors.ts";
import { explain } from "./_files.ts";
import { type Head, installationOf } from "./format.ts";
import { type KeepRule, selectKept } from "./keep_rule.ts";
import { isWhole, listBackups } from "./list_backups.ts";
import { toRefusal } from "./read_backup.ts";
import { type Backup, type BackupOptions, finishBackup, prepareBackup } from "./write_backup.ts";

export interface FolderOptions extends Omit<BackupOptions, "path" | "replace" | "besideFolder"> {
  /** Made if it is missing. */
  readonly folder: string;
  readonly models: ModelsPlace;
  /** Which backups stay; without it, all. */
  readonly keep: KeepRule | undefined;
  /** Accepts an installation that is new to the folder, or has no key, and remembers it there. */
  readonly intoSharedFolder?: boolean;
  readonly tryLock: Platform["tryLock"];
}

export interface FolderBackup extends Backup {
  readonly path: string;
  /** How many backups and model files were removed. */
  readonly removed: Removed;
}

interface Removed {
  readonly backups: number;
  readonly models: number;
  /** The last whole backup, if it stayed only because those after it lack model files. */
  readonly lastWhole?: string;
  readonly warnings: readonly string[];
}

/** A folder of backups has model files, too. */
const OF_DATA_FOLDER = DATA_FOLDER_NAMES.filter((name) => name !== "models");

/** Adds a backup to a folder, and then removes those that `keep` does not keep. */
export async function addBackup(
  address: DatabaseAddress,
  { folder, keep, tryLock, intoSharedFolder = false, ...options }: FolderOptions,
): Promise<FolderBackup | Refusal> {
  const besideFolder = modelsFolderOf({ dataDir: folder });
  const { models, clock } = options;
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
      if (isForeignPath(folder, { isFolder: true }))
        throw new BackupFailure(
          `other users can make files in ${folder}, such as the lock of a backup; \`chmod go-w ${folder}\`, or choose ` +
            "another folder",
        );
      return tryLock(join(folder, ".lock"));
    });
    if (lock === undefined)
      throw new BackupFailure(
        `another backup into ${folder} is running, or its file system has no locks; try again when it has ended`,
      );
    try {
      const prepared = await prepareBackup(address, {
        ...options,
        besideFolder,
        async admit(source) {
          await admit(source, { folder, intoSharedFolder });
          await explain(cannotWrite, async () => {
            await prepareFolder(besideFolder, clock.now());
            if (existsSync(modelsFolder) && realpathSync(modelsFolder) === realpathSync(besideFolder))
              throw new BackupFailure(`${folder} is the data folder itself; choose another folder`);
          });
        },
      });
      if (isRefusal(prepared)) return prepared;
      const now = clock.now();
      const path = join(folder, nameOf(now));
      if (existsSync(path)) throw new BackupFailure(`${path} was made in the same second; try again`);
      // `replace`, because not every file system has the hard links with which a file replaces no other.
      const finish = { ...options, path, replace: true, besideFolder, now };
      const written = await finishBackup(address, prepared, finish);
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
 * Removes earlier backups of this installation that `keep` does not keep, and then the model files nobody needs. The last
 * whole backup always stays: those after it may lack the same model files. Warns of files that cannot be read: nobody
 * knows what they need, so every model file stays.
 */
async function removeOld(folder: string, keep: KeepRule | undefined, newest: Head): Promise<Removed> {
  if (keep === undefined) return { backups: 0, models: 0, warnings: [] };
  const { found, unreadable } = await listBackups(folder);
  const installation = installationOf(newest);
  // A backup of the future was made with a wrong clock. If it counted, it would displace the backups of now. One without
  // an installation can be anybody's.
  const own = found.filter(
    ({ name, head }) =>
      installation !== undefined &&
      installationOf(head) === installation &&
      name === nameOf(new Date(head.made_at)) &&
      head.made_at <= newest.made_at,
  );
  const timeOf = ({ head }: (typeof own)[number]) => Date.parse(head.made_at);
  const kept = selectKept(own.map(timeOf), keep);
  // The list begins with the oldest backup.
  const whole = own.findLast(({ head }) => isWhole(head));
  const old = own.filter((each) => each !== whole && !kept.has(timeOf(each)));
  for (const { name } of old) await rm(join(folder, name));
  if (old.length > 0) await syncPath(folder);

  const left = found.filter((each) => !old.includes(each));
  const needed = left.flatMap(({ head }) => head.beside?.files ?? []).map(({ sha256 }) => sha256);
  const isEverythingKnown = unreadable.length === 0;
  const models = isEverythingKnown
    ? await removeUnneeded(modelsFolderOf({ dataDir: folder }), new Set(needed))
    : 0;
  const isSpared = whole !== undefined && !kept.has(timeOf(whole));
  const warnings = unreadable.map(
    ({ name, why }) =>
      `${join(folder, name)} cannot be used (${why}), so no model file was removed: remove it, or move it away`,
  );
  return {
    backups: old.length,
    models,
    ...(isSpared && { lastWhole: join(folder, whole.name) }),
    warnings,
  };
}

function nameOf(at: Date): string {
  return `claviger-${toTimestamp(at).replaceAll(":", "")}.tar.zst`;
}

/**
 * The traces that an installation and a restore leave in a data folder, so that a folder that has lost its database is
 * never taken for a new one.
 *
 * A first start makes the cluster before everything else, and the cluster appears whole. So what the other files say
 * of an installation without a cluster is true whenever the start was interrupted. `lock`, the unpacked programs and
 * unfinished folders say nothing.
 */
import { lstatSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type DataFolderName, pathInData } from "../../base/host/mod.ts";
import type { Platform } from "../../base/platform/mod.ts";
import { syncPath } from "../../base/sync_path.ts";
import { type Layout, layoutOf } from "./_layout.ts";

/** A file or folder that only an installation leaves. */
export type Trace = Extract<DataFolderName, "installation" | "secret" | "models" | "serving">;

/** Finds the traces of an installation; throws if this user may not look for them. */
export function findTraces({ dataDir }: Layout): Trace[] {
  const names: readonly Trace[] = ["installation", "secret", "serving"];
  const found = names.filter((name) => isThere(pathInData(dataDir, name)));
  return hasFile(pathInData(dataDir, "models")) ? [...found, "models"] : found;
}

/** Tells whether something has this path. Throws if this user may not enter the folder: the answer is then unknown. */
export function isThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

/** Notes that the data folder has an installation, on disk before this returns. */
export function noteInstallation({ installation }: Layout): Promise<void> {
  return isThere(installation) ? Promise.resolve() : write(installation, INSTALLATION);
}

/** The note that a restore has begun. While it is there, only a restore opens the data folder. */
export interface RestoreNote {
  /** Leaves the note, before the restore changes anything. */
  leave(): Promise<void>;
  /** Removes the note of a restore that has changed nothing. A cluster that was made for the restore keeps it. */
  takeBack(): Promise<void>;
  /** Removes the note of a restore that is complete. */
  remove(): Promise<void>;
}

/** Returns the note of a restore into this folder. Each step is on disk before it returns. */
export function createRestoreNote(
  layout: Layout,
  { isClusterNew }: { readonly isClusterNew: boolean },
): RestoreNote {
  const { restoring, dataDir } = layout;
  const remove = async () => {
    rmSync(restoring, { force: true });
    await syncPath(dataDir);
  };
  return {
    leave: () => write(restoring, RESTORING),
    takeBack: () => (isClusterNew ? Promise.resolve() : remove()),
    async remove() {
      await noteInstallation(layout);
      await remove();
    },
  };
}

/**
 * Notes a restore into an existing folder without a cluster, before its backup is verified: that can take minutes, and
 * what is killed meanwhile must not look like a new folder. Returns the function that takes the note back if the restore
 * ends before it has made a cluster.
 *
 * Beside a process that makes a cluster, the note would condemn that cluster. So the note is written and taken back while
 * no other process holds the folder's lock.
 */
export async function announceRestore(
  dataDir: string,
  { platform }: { readonly platform: Platform },
): Promise<() => Promise<void>> {
  const layout = layoutOf(dataDir);
  const { cluster, lock, restoring } = layout;
  if (!isThere(layout.dataDir) || isThere(cluster) || isThere(restoring)) return nothing;
  const remove = async () => {
    rmSync(restoring, { force: true });
    await syncPath(layout.dataDir);
  };
  const announce = async () => {
    if (isThere(cluster) || isThere(restoring)) return false;
    await write(restoring, RESTORING);
    return true;
  };
  const hadLock = isThere(lock);
  // Without the lock there is no note: opening the folder waits for its holder, and notes the restore then.
  if (!(await whileLocked(layout, platform, announce))) return nothing;
  if (!hadLock && isThere(lock)) {
    // Whoever has begun meanwhile may have looked for the note before it was there.
    await remove();
    return nothing;
  }
  return async () => {
    const takeBack = async () => {
      if (!isThere(cluster)) await remove();
      return true;
    };
    // Whoever holds the lock now sees the note and ends soon. A note that stays only asks for another restore.
    for (let tries = 0; tries < 100 && !(await whileLocked(layout, platform, takeBack)); tries++)
      await sleep(50);
  };
}

/**
 * Runs a step while this process holds the lock of the folder, and returns its result; undefined if another process holds
 * it. A folder without the lock's file is nobody's, and gets none: what is refused must leave nothing behind.
 */
async function whileLocked<Result>(
  { lock }: Layout,
  platform: Platform,
  step: () => Promise<Result>,
): Promise<Result | undefined> {
  if (!isThere(lock)) return await step();
  const held = platform.tryLock(lock);
  try {
    return held && (await step());
  } finally {
    held?.release();
  }
}

const nothing = () => Promise.resolve();

/** The note of a restore into an external database, whose folder does not belong to Claviger: none. */
export const NO_RESTORE_NOTE: RestoreNote = { leave: nothing, takeBack: nothing, remove: nothing };

const INSTALLATION =
  "This folder has an installation of Claviger. If the folder postgres is lost, no command fills this folder anew: " +
  "restore a backup, as `claviger guide backups` says.\n";
const RESTORING =
  "A restore into this folder has begun and has not ended. Until `claviger restore` has ended, every other command " +
  "refuses this folder.\n";

/** That the file exists is all that counts, so it needs no draft. */
async function write(path: string, text: string): Promise<void> {
  writeFileSync(path, text, { mode: 0o644, flush: true });
  await syncPath(dirname(path));
}

/** Tells whether a folder, or a folder in it, has anything but folders. */
function hasFile(folder: string): boolean {
  if (lstatSync(folder, { throwIfNoEntry: false })?.isDirectory() === false) return true;
  if (!isThere(folder)) return false;
  return readdirSync(folder, { recursive: true, withFileTypes: true }).some((entry) => !entry.isDirectory());
}

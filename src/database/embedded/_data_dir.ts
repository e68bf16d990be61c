/** Opens the data folder to the user of the cluster, and removes it after a start that was refused. */
import { chmodSync, readdirSync, rmdirSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { findClosedFolder, nameOfUser } from "../../base/host/mod.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import type { ClusterUser } from "./_cluster_user.ts";
import { isUnfinished, type Layout } from "./_layout.ts";

/**
 * Removes the folders that were created for a start that was refused, with the lock file: a process that waits for the
 * lock would be refused, too. A folder that holds anything else stays, and so do the folders above it.
 */
export function removeEmpty({ dataDir, lock }: Layout, firstMade: string): void {
  try {
    rmSync(lock, { force: true });
    for (let folder = dataDir; ; folder = dirname(folder)) {
      rmdirSync(folder);
      if (folder === firstMade) return;
    }
  } catch {
    // The folder holds something else by now.
  }
}

/** Lets the user of the cluster enter the data folder; refuses if that user cannot enter a folder above it. */
export function shareWith(
  clusterUser: ClusterUser,
  layout: Layout,
  binariesParent?: string,
): Refusal | undefined {
  const { mode } = statSync(layout.dataDir);
  if ((mode & 0o111) !== 0o111) chmodSync(layout.dataDir, (mode & 0o7777) | 0o111);
  for (const folder of [layout.dataDir, binariesParent ?? layout.dataDir]) {
    const closed = findClosedFolder(folder, clusterUser);
    if (closed !== undefined) {
      return refuse(
        "INVALID_REQUEST",
        `Cannot keep the database in ${layout.dataDir}: ${closed} is closed to user ` +
          `${nameOfUser(clusterUser.uid)}, who runs PostgreSQL because PostgreSQL refuses to run as root. Choose ` +
          "another folder, such as /var/lib/claviger, or start as the user who owns this one",
      );
    }
  }
  return undefined;
}

/** What PostgreSQL refuses in the mode of its folder: changes by the group, and everything by others. */
const OPEN = 0o027;

/**
 * Closes the folder of the cluster to other users, because PostgreSQL refuses an open one. Kubernetes opens it to the
 * group of a volume (`fsGroup`). Returns whether that was necessary; refuses if the mode cannot be changed.
 */
export function closeCluster({ cluster }: Layout): boolean | Refusal {
  const isOpen = () => (statSync(cluster).mode & OPEN) !== 0;
  if (!isOpen()) return false;
  chmodSync(cluster, 0o700);
  if (!isOpen()) return true;
  return refuse(
    "INVALID_REQUEST",
    `Cannot use the database in ${cluster}: other users can change it, and its file system keeps it so; choose a data ` +
      "folder on a file system with permissions",
  );
}

/** Removes unfinished folders of interrupted starts. */
export function removeUnfinished(dataDir: string): void {
  for (const name of readdirSync(dataDir)) {
    if (!isUnfinished(name)) continue;
    try {
      rmSync(join(dataDir, name), { recursive: true, force: true });
    } catch {
      // A process of the interrupted start may still write there: the next start will remove the folder.
    }
  }
}

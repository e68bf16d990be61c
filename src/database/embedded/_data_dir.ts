/** The data folder before a server runs in it: made, shared with the user of the cluster, cleared, taken back. */
import { chmodSync, mkdirSync, readdirSync, rmdirSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { findClosedFolder, refuseForeignFolder } from "../../host/mod.ts";
import { type Refusal, refuse } from "../../refusal.ts";
import type { Account } from "./_account.ts";
import { isUnfinished, type Layout } from "./_layout.ts";

/** Gives the first of the folders that had to be made, undefined where the data folder was there. */
export function prepareDataDir(dataDir: string): string | Refusal | undefined {
  const firstMade = mkdirSync(dataDir, { recursive: true });
  // Somebody else may have been faster to make it, or a part of it.
  const foreign = refuseForeignFolder(dataDir);
  if (foreign !== undefined || firstMade === undefined) return foreign;
  chmodSync(dataDir, process.getuid?.() === 0 ? 0o711 : 0o700);
  return firstMade;
}

/**
 * Takes back what was made for a start that was refused, with its lock: whoever waits for that would be
 * refused as well. A folder with anything else in it stays, and so do those above it.
 */
export function removeEmpty({ dataDir, lock }: Layout, firstMade: string): void {
  try {
    rmSync(lock, { force: true });
    for (let folder = dataDir; ; folder = dirname(folder)) {
      rmdirSync(folder);
      if (folder === firstMade) return;
    }
  } catch {
    // Something else is there by now.
  }
}

/** Lets the user of the cluster pass through the data folder; a refusal where one above is closed. */
export function shareWith(account: Account, layout: Layout, binariesParent?: string): Refusal | undefined {
  const { mode } = statSync(layout.dataDir);
  if ((mode & 0o111) !== 0o111) chmodSync(layout.dataDir, (mode & 0o7777) | 0o111);
  for (const folder of [layout.dataDir, binariesParent ?? layout.dataDir]) {
    const closed = findClosedFolder(folder, account);
    if (closed !== undefined) {
      return refuse(
        "INVALID_REQUEST",
        `Cannot keep the database in ${layout.dataDir}: ${closed} is closed to user ${account.uid}, as ` +
          "whom PostgreSQL runs, since it may not run as root. Choose another folder, such as " +
          "/var/lib/claviger, or start as the user who owns this one",
      );
    }
  }
  return undefined;
}

/** Clears away what an interrupted start left. */
export function removeUnfinished(dataDir: string): void {
  for (const name of readdirSync(dataDir)) {
    if (!isUnfinished(name)) continue;
    try {
      rmSync(join(dataDir, name), { recursive: true, force: true });
    } catch {
      // Something of the interrupted start may still write there: the next start will find it quiet.
    }
  }
}

/** The paths inside a data folder. */
import { mkdtempSync } from "node:fs";
import { resolve } from "node:path";
import { pathInData } from "../../base/host/mod.ts";

export type Layout = Readonly<ReturnType<typeof layoutOf>>;

/** Returns the paths in a data folder. */
export function layoutOf(dataDir: string) {
  const folder = resolve(dataDir);
  return {
    dataDir: folder,
    /** The lock file. The process that uses the folder locks it and writes its own name into it. */
    lock: pathInData(folder, "lock"),
    /** PGDATA. It is created under another name and renamed when it is whole. */
    cluster: pathInData(folder, "postgres"),
    /** Written once there is a cluster: from then on a folder without one has lost it. */
    installation: pathInData(folder, "installation"),
    /** Written before a restore changes anything, and removed after its end. */
    restoring: pathInData(folder, "restoring"),
  };
}

/**
 * Creates an empty folder (mode 0700) next to the final path, for files that are not complete yet. The next start
 * removes such folders of an interrupted start.
 */
export function makeUnfinished(path: string): string {
  return mkdtempSync(`${path}.unfinished-`);
}

/** Tells whether a folder of this name was not completed. */
export function isUnfinished(name: string): boolean {
  return /^postgres.*\.unfinished-\w+$/.test(name);
}

import { lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { hasCode } from "../../base/system_error.ts";

/** Enough for a large installation. A command of root that was run by mistake leaves foreign files near the top. */
const MOST_FILES = 20_000;
/** The names that the service writes. An operator may keep other files there, and a mounted disk has `lost+found`. */
const OF_SERVICE = /^(lock|installation|restoring|secret|serving|models|postgres.*)$/;

/**
 * Finds a file of the service in the data folder that does not belong to the owner of the folder. The service runs as
 * that owner, so it may be unable to use the file. Looks only for the owner: root would look where links of the owner
 * lead.
 */
export function findForeignFile(dataDir: string): string | undefined {
  const uid = process.geteuid?.();
  if (uid === 0 || lstatSync(dataDir).uid !== uid) return undefined;
  const folders = [dataDir];
  let seen = 0;
  for (let folder = folders.shift(); folder !== undefined; folder = folders.shift()) {
    for (const name of namesIn(folder)) {
      if (folder === dataDir && !OF_SERVICE.test(name)) continue;
      if (++seen > MOST_FILES) return undefined;
      const path = join(folder, name);
      const stat = lstatSync(path, { throwIfNoEntry: false });
      if (stat !== undefined && stat.uid !== uid) return path;
      if (stat?.isDirectory()) folders.push(path);
    }
  }
  return undefined;
}

/** Returns no name for a folder that PostgreSQL has deleted meanwhile. */
function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (hasCode(error, "ENOENT")) return [];
    throw error;
  }
}

/** Makes room in the folder of model files while it is a cache of the bucket: which files are removed, and which never. */
import { existsSync, rmSync, utimesSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { basename, join } from "node:path";
import { hasCode } from "../base/system_error.ts";
import { readHeld } from "./_hold_marks.ts";
import type { Bucket } from "./bucket/mod.ts";
import { isStoredAs } from "./file_store.ts";
import { type FoundFile, listFiles, type ModelsPlace, modelsFolderOf } from "./model_files.ts";

/** At least this much of the disk stays free, for the database and for other programs. */
export const LEAST_FREE_BYTES = 256 * 1024 * 1024;

/** While the folder has a file of this name, no model file is removed. `models move --to folder` makes that file. */
export const KEEP_ALL = ".keep-all";

/**
 * Marks a file as used now, so that other files are removed before it. Returns false if the file is not there any more.
 * Ignores every other error.
 */
export function markUsed(path: string): boolean {
  try {
    utimesSync(path, new Date(), new Date());
    return true;
  } catch (error) {
    return !hasCode(error, "ENOENT");
  }
}

/**
 * Removes the least recently used files until `neededBytes` more bytes fit into the cache and on its disk, and also the
 * bytes that other fetches in progress need. Never removes a file that `file_holds.ts` holds, or one that the bucket does
 * not have. Removes nothing if even the removal of all files that are not held would be too little. Returns why the bytes
 * do not fit; undefined if they do.
 *
 * Two processes on one folder can do this at the same moment, and then have one file too many until the next fetch.
 */
export async function makeRoom(
  bucket: Bucket,
  place: ModelsPlace,
  neededBytes: number,
): Promise<string | undefined> {
  const folder = modelsFolderOf(place);
  // Read before the list of files. If a fetch ends in between, its bytes are counted twice. In the other order, they would
  // not be counted at all.
  const { fetchedBytes } = readHeld(folder);
  const all = await listFiles({ ...place, modelsBucket: undefined });
  const files = all.filter(({ path }) => isStoredAs(path));
  const sum = (some: readonly FoundFile[]) => some.reduce((bytes, { sizeBytes }) => bytes + sizeBytes, 0);
  const { bavail, bsize } = await statfs(folder);
  const limitBytes = place.modelsCacheBytes ?? Number.POSITIVE_INFINITY;
  const { held } = readHeld(folder);
  const addedBytes = neededBytes + fetchedBytes;
  let excessBytes = Math.max(
    sum(files) + addedBytes - limitBytes,
    addedBytes + LEAST_FREE_BYTES - bavail * bsize,
  );
  const notHeld = existsSync(join(folder, KEEP_ALL))
    ? []
    : files.filter(({ path }) => !held.has(basename(path)));
  notHeld.sort((one, other) => one.changedAt.getTime() - other.changedAt.getTime());
  const removable = sum(notHeld) < excessBytes ? [] : notHeld;
  for (const { path, at, sizeBytes } of removable) {
    if (excessBytes <= 0) break;
    // The only copy of a file is never removed. The question to the bucket takes a while, so the file may be held by now.
    if ((await bucket.sizeOf(path)) !== sizeBytes || readHeld(folder).held.has(basename(path))) continue;
    // Directly after that check, so that other processes have almost no time to hold the file in between.
    rmSync(at, { force: true });
    excessBytes -= sizeBytes;
  }
  if (excessBytes <= 0) return undefined;
  return (
    `the cache or the disk of ${folder} has no room for it beside the files that are being read; free some space, ` +
    "run `claviger models purge` on this host, or raise CLAVIGER_MODELS_CACHE_GB"
  );
}

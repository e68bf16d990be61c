/** The room in the folder of model files while it is a cache of the bucket: which files leave it, and when none does. */
import { existsSync, rmSync, utimesSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { basename, join } from "node:path";
import { hasCode } from "../base/system_error.ts";
import { readHeld } from "./_hold_marks.ts";
import type { Bucket } from "./bucket/mod.ts";
import { isStoredAs } from "./file_store.ts";
import { type FoundFile, listFiles, type ModelsPlace, modelsFolderOf } from "./model_files.ts";

/** So much of the disk stays free, for the database and for other programs. */
export const LEAST_FREE_BYTES = 256 * 1024 * 1024;

/** While this file is in the folder, no file leaves it: `models move --to folder` makes it. */
export const KEEP_ALL = ".keep-all";

/** Marks a file as used now: other files leave the cache first. Returns false if it is not there any more. */
export function markUsed(path: string): boolean {
  try {
    utimesSync(path, new Date(), new Date());
    return true;
  } catch (error) {
    return !hasCode(error, "ENOENT");
  }
}

/**
 * Removes from the folder what was used least recently, until so many bytes more fit into the cache and on its disk,
 * beside those that other fetches need. Keeps what `file_holds.ts` holds and what the bucket does not have, and keeps
 * everything if the bytes cannot fit. Returns why they do not fit; undefined if they do.
 *
 * Two processes on one folder can do this at the same moment, and then have one file too many until the next fetch.
 */
export async function makeRoom(
  bucket: Bucket,
  place: ModelsPlace,
  neededBytes: number,
): Promise<string | undefined> {
  const folder = modelsFolderOf(place);
  // Read before the list: a fetch that ends in between is then counted twice, and not left out.
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
  const unused = existsSync(join(folder, KEEP_ALL))
    ? []
    : files.filter(({ path }) => !held.has(basename(path)));
  unused.sort((one, other) => one.changedAt.getTime() - other.changedAt.getTime());
  for (const { path, at, sizeBytes } of sum(unused) < excessBytes ? [] : unused) {
    if (excessBytes <= 0) break;
    // The only copy of a file is never removed. The question takes a while, so the file can be held by now.
    if ((await bucket.sizeOf(path)) !== sizeBytes || readHeld(folder).held.has(basename(path))) continue;
    // Directly after that check, so that no process can hold the file in between.
    rmSync(at, { force: true });
    excessBytes -= sizeBytes;
  }
  if (excessBytes <= 0) return undefined;
  return (
    `the cache or the disk of ${folder} has no room for it beside the files that are being read; free some space, ` +
    "run `claviger models purge` on this host, or raise CLAVIGER_MODELS_CACHE_GB"
  );
}

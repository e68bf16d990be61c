/** Moves the files of an installation into its bucket, or out of it, while services send them. */
import { existsSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { refuse } from "../base/refusal.ts";
import type { Database } from "../database/mod.ts";
import { fetchFile, putIntoBucket } from "./_bucket_transfers.ts";
import type { Bucket } from "./bucket/mod.ts";
import { KEEP_ALL } from "./cache_room.ts";
import { checkStoredFile, pathOfFile } from "./file_store.ts";
import { type ModelsPlace, modelsFolderOf, openModelsBucket, selectFiles } from "./model_files.ts";
import { checkShared } from "./shared_folder.ts";
import { makeStore, type StoreOptions } from "./store_bytes.ts";

interface MoveOptions extends StoreOptions {
  readonly to: "s3" | "folder";
}

/**
 * Copies every file from the folder into the bucket, or from the bucket into the folder, and checks each copy by its
 * SHA-256. The originals stay: services with the old settings and with the new ones find every file. Can be repeated.
 * Returns how many files and bytes are there, and the SHA-256 of each file that is neither in the bucket nor
 * intact in the folder. Refuses settings without a bucket, and a folder that other serving hosts do not share.
 */
export async function moveFiles(
  database: Database,
  place: ModelsPlace,
  { to, now, onProgress }: MoveOptions,
) {
  const bucket = openModelsBucket(place);
  if (bucket === undefined)
    return refuse("INVALID_REQUEST", "Cannot move models: CLAVIGER_MODELS_S3 is not set");
  const refused =
    to === "s3" ? undefined : await checkShared(database, { ...place, modelsBucket: undefined });
  if (refused !== undefined) return refused;
  await makeStore(place, now);
  const folder = modelsFolderOf(place);
  const keepAll = join(folder, KEEP_ALL);
  const isFirst = to === "folder" && !existsSync(keepAll);
  if (isFirst) await writeFile(keepAll, "", { mode: 0o640 });
  try {
    const moved = await copyFiles(database, bucket, { folder, to, onProgress });
    if (to === "s3") await rm(keepAll, { force: true });
    return moved;
  } catch (error) {
    // After an earlier move, services may have the new settings already.
    if (isFirst) await rm(keepAll, { force: true });
    throw error;
  }
}

async function copyFiles(
  database: Database,
  bucket: Bucket,
  { folder, to, onProgress }: Pick<MoveOptions, "to" | "onProgress"> & { readonly folder: string },
) {
  const done = new Set<string>();
  const missing: string[] = [];
  let bytes = 0;
  // Files can be added while others are copied: the list is read again until it has no new file.
  for (let before = -1; before < done.size; ) {
    before = done.size;
    const files = await database.query(selectFiles);
    for (const file of files.filter(({ sha256 }) => !done.has(sha256))) {
      const path = pathOfFile(folder, file.sha256);
      const showBegun = () => onProgress(0, file.sizeBytes);
      const isHere = (await checkStoredFile(path, file, showBegun)) === undefined;
      const isThere = (await bucket.sizeOf(pathOfFile("", file.sha256))) === file.sizeBytes;
      if (to === "s3" && isHere) await putIntoBucket(bucket, path, { ...file, onProgress });
      if (to === "folder" && !isHere && isThere) await fetchFile(bucket, folder, { ...file, onProgress });
      if (isHere || isThere) bytes += file.sizeBytes;
      else missing.push(file.sha256);
      done.add(file.sha256);
    }
  }
  return { files: done.size - missing.length, bytes, missing };
}

/** Adds a file to the model files of an installation. */
import { constants, fstatSync } from "node:fs";
import { stat, statfs } from "node:fs/promises";
import { isForeignPath, makeDataFolder } from "../base/host/mod.ts";
import { openNamedFile, readChunks } from "../base/read_regular_file.ts";
import { isRefusal, type Refusal, refuse } from "../base/refusal.ts";
import { putIntoBucket } from "./_bucket_transfers.ts";
import { LEAST_FREE_BYTES, makeRoom, markUsed } from "./cache_room.ts";
import { type CopyOptions, keepFile, type OnProgress, prepareFolder, type StoredFile } from "./file_store.ts";
import { type ModelsPlace, modelsFolderOf, openModelsBucket } from "./model_files.ts";

export interface StoreOptions {
  readonly now: Date;
  readonly onProgress: OnProgress;
}

/** The refusal if the disk has no room for a file. */
export const NO_ROOM = refuse(
  "SERVICE_UNAVAILABLE",
  "Cannot store the file: the disk of the service has no room for it; free some space, or move the data folder",
);
const EMPTY = refuse("INVALID_REQUEST", "Cannot store the file: it is empty");
const TOO_LARGE = refuse(
  "INVALID_REQUEST",
  "Cannot store the file: it is larger than the cache from which it is served; raise CLAVIGER_MODELS_CACHE_GB",
);

/**
 * Copies a file into the store and returns its SHA-256 and size. The same bytes are stored once. Refuses a path that
 * is not a file, and a file that changes during the copy. Throws the errors of the file system.
 */
export async function storeFile(
  place: ModelsPlace,
  source: string,
  { now, onProgress }: StoreOptions,
): Promise<StoredFile | Refusal> {
  const cannot = (why: string) => refuse("INVALID_REQUEST", `Cannot add model: ${source}: ${why}`);
  // Without O_NONBLOCK, opening a pipe waits until another process writes to it.
  using from = openNamedFile(source, constants.O_NONBLOCK);
  if (!from.stat.isFile()) return cannot("it is not a file");
  const check = async (stored: StoredFile) => {
    const after = fstatSync(from.fd);
    return stored.sizeBytes !== after.size || from.stat.mtimeMs !== after.mtimeMs
      ? cannot("it changed while it was read; try again when nothing writes to it")
      : undefined;
  };
  const options = { now, sizeBytes: from.stat.size, onProgress, check };
  return await storeBytes(place, readChunks(from.fd), options);
}

/** What {@linkcode storeBytes} checks. */
interface BytesOptions extends StoreOptions, CopyOptions {
  /** Refuses if the disk would have less than 256 MB left after so many more bytes; by default this is not checked. */
  readonly neededBytes?: number;
  /** Refuses a whole file before it gets its name. */
  readonly check?: (stored: StoredFile) => Promise<Refusal | undefined>;
}

/**
 * Stores bytes from a stream, as {@linkcode storeFile} does. If the stream throws or a check refuses, nothing is left
 * behind. Every way to add a file ends here, so that the file is where every host finds it when this returns: with a
 * bucket, it is in the bucket before it has its name in the folder.
 */
export async function storeBytes(
  place: ModelsPlace,
  chunks: AsyncIterable<Uint8Array>,
  { now, neededBytes, check = async () => undefined, ...options }: BytesOptions,
): Promise<StoredFile | Refusal> {
  const bucket = openModelsBucket(place);
  const cacheBytes = (bucket && place.modelsCacheBytes) ?? Number.POSITIVE_INFINITY;
  if (options.sizeBytes > cacheBytes) return TOO_LARGE;
  const folder = modelsFolderOf(place);
  await makeStore(place, now);
  const { bavail, bsize } = await statfs(folder);
  if (neededBytes !== undefined && bavail * bsize < neededBytes + LEAST_FREE_BYTES) return NO_ROOM;
  const kept = await keepFile(folder, chunks, options, async (stored, path) => {
    const refusal = (await check(stored)) ?? (stored.sizeBytes === 0 ? EMPTY : undefined);
    if (refusal !== undefined || bucket === undefined) return refusal;
    // The size of standard input is not known before.
    if (stored.sizeBytes > cacheBytes) return TOO_LARGE;
    const onProgress: OnProgress = (done, total) => {
      // This can take hours, and an unfinished file without a sign of life is removed after one.
      markUsed(path);
      options.onProgress(done, total);
    };
    await putIntoBucket(bucket, path, { ...stored, onProgress });
    return undefined;
  });
  if (bucket !== undefined) await makeRoom(bucket, place, 0);
  return kept;
}

/**
 * Creates the missing folders; with an external database the data folder can be missing, too. Throws if a shared folder is
 * missing, or if another user could lead root's writes elsewhere.
 */
export async function makeStore(place: ModelsPlace, now: Date): Promise<void> {
  const { dataDir, modelsDir } = place;
  const made = modelsDir === undefined ? makeDataFolder(dataDir) : undefined;
  if (isRefusal(made)) throw new Error(made.sentence);
  if (modelsDir !== undefined) {
    // A shared folder is not made: without its mount, the files would go to the disk below it.
    await stat(modelsDir);
    if (isForeignPath(modelsDir))
      throw new Error(
        "another user could make root write elsewhere; run the command as the user of the service",
      );
  }
  await prepareFolder(modelsFolderOf(place), now);
}

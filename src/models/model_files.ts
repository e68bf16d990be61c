/**
 * The model files of an installation: in the folder `models` of the data folder, or in the folder that all hosts share.
 * With a bucket, the bucket has all files under the same names, and the folder of each host is a cache of them.
 */
import { constants, createReadStream, fstatSync } from "node:fs";
import { open, stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import { type Bucket, BucketFailure, type BucketSettings, openBucket } from "../bucket/mod.ts";
import { isForeignPath, makeDataFolder } from "../host/mod.ts";
import { openNamedFile, readChunks } from "../read_regular_file.ts";
import { isRefusal, type Refusal, refuse } from "../refusal.ts";
import {
  type CopyOptions,
  type FileProblem,
  hasBytes,
  keepFile,
  listStored,
  locateFile,
  type OnProgress,
  pathOfFile,
  prepareFolder,
  type StoredFile,
} from "./file_store.ts";

/** Where the model files of an installation are, by its settings. */
export interface ModelsPlace {
  readonly dataDir: string;
  /** The folder on a mount that all hosts share; by default the folder `models` in the data folder. Absolute. */
  readonly modelsDir?: string | undefined;
  /** The bucket of all files; then the folder is a cache of it. */
  readonly modelsBucket?: BucketSettings | undefined;
  /** How many bytes of the bucket's files the folder keeps; by default all of them. */
  readonly modelsCacheBytes?: number;
}

export interface StoreOptions {
  readonly now: Date;
  readonly onProgress: OnProgress;
}

/** So much of the disk stays free, for the database and for other programs. */
export const LEAST_FREE_BYTES = 256 * 1024 * 1024;
/** The refusal if the disk has no room for a file. */
export const NO_ROOM = refuse(
  "SERVICE_UNAVAILABLE",
  "Cannot store the file: the disk of the service has no room for it; free some space, or move the data folder",
);
const TOO_LARGE = refuse(
  "INVALID_REQUEST",
  "Cannot add model: the file is larger than the cache from which it is served; raise CLAVIGER_MODELS_CACHE_GB",
);

/** Returns the folder of the model files. */
export function modelsFolderOf({ dataDir, modelsDir }: ModelsPlace): string {
  return modelsDir ?? join(dataDir, "models");
}

/** Opens the bucket of the files; undefined if they are in the folder alone. Throws if its settings cannot be used. */
export function openModelsBucket({ modelsBucket }: ModelsPlace): Bucket | undefined {
  return modelsBucket && openBucket(modelsBucket);
}

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
  const from = openNamedFile(source, constants.O_NONBLOCK);
  try {
    if (!from.stat.isFile()) return cannot("it is not a file");
    const check = async (stored: StoredFile) => {
      const after = fstatSync(from.fd);
      return stored.sizeBytes !== after.size || from.stat.mtimeMs !== after.mtimeMs
        ? cannot("it changed while it was read; try again when nothing writes to it")
        : undefined;
    };
    const options = { now, sizeBytes: from.stat.size, onProgress, check };
    return await storeBytes(place, readChunks(from.fd), options);
  } finally {
    from.close();
  }
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
  const folder = modelsFolderOf(place);
  await makeStore(place, now);
  const { bavail, bsize } = await statfs(folder);
  if (neededBytes !== undefined && bavail * bsize < neededBytes + LEAST_FREE_BYTES) return NO_ROOM;
  return await keepFile(folder, chunks, options, async (stored, path) => {
    const refusal = await check(stored);
    if (refusal !== undefined || bucket === undefined) return refusal;
    if (stored.sizeBytes > (place.modelsCacheBytes ?? Number.POSITIVE_INFINITY)) return TOO_LARGE;
    await putIntoBucket(bucket, path, { ...stored, onProgress: options.onProgress });
    return undefined;
  });
}

/** Creates the missing folders. With an external database the data folder can be missing, too. */
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

interface Transfer extends StoredFile {
  readonly onProgress: OnProgress;
  readonly signal?: AbortSignal;
}

/**
 * Puts the file at a path into the bucket, reads it back, and compares it with its SHA-256. A file that is there already
 * is only compared. Throws if the bucket does not have the right bytes afterwards.
 */
export async function putIntoBucket(
  bucket: Bucket,
  path: string,
  { onProgress, ...file }: Transfer,
): Promise<void> {
  const { sha256, sizeBytes } = file;
  const isThere = async () =>
    (await checkInBucket(bucket, file, () => onProgress(sizeBytes, sizeBytes))) === undefined;
  if (await isThere()) return;
  const from = await open(path);
  try {
    await bucket.write(pathOfFile("", sha256), sizeBytes, async (first, length) => {
      onProgress(first, sizeBytes);
      return (await from.read(Buffer.alloc(length), 0, length, first)).buffer;
    });
  } finally {
    await from.close();
  }
  if (await isThere()) return;
  await bucket.remove(pathOfFile("", sha256));
  throw new BucketFailure(
    bucket.url,
    "what it stored has another SHA-256 than the file, so it was removed; see `claviger models verify`",
  );
}

/** Reads a whole file in the bucket and returns its fault; undefined if it is intact. */
export async function checkInBucket(
  bucket: Bucket,
  file: StoredFile,
  onBytes: (bytes: number) => void,
): Promise<FileProblem | undefined> {
  const name = pathOfFile("", file.sha256);
  const sizeBytes = await bucket.sizeOf(name);
  if (sizeBytes === undefined) return "missing";
  const isRight =
    sizeBytes === file.sizeBytes && (await hasBytes(file, bucket.read(name, sizeBytes), onBytes));
  return isRight ? undefined : "changed";
}

/** Fetches a file from the bucket into the folder. Throws if the bucket has other bytes under its name. */
export async function fetchFile(
  bucket: Bucket,
  folder: string,
  { onProgress, signal, sha256, sizeBytes }: Transfer,
): Promise<void> {
  const chunks = bucket.read(pathOfFile("", sha256), sizeBytes, signal);
  await keepFile(folder, chunks, { sizeBytes, onProgress }, async (stored) => {
    if (stored.sha256 === sha256) return undefined;
    throw new BucketFailure(bucket.url, `it has other bytes under the name ${sha256}`);
  });
}

/** Reads a stored file: from the folder if it is there, otherwise from the bucket. Does not compare it. */
export async function* readStored(place: ModelsPlace, file: StoredFile): AsyncGenerator<Buffer> {
  const folder = modelsFolderOf(place);
  const bucket = openModelsBucket(place);
  const isHere = bucket === undefined || typeof (await locateFile(folder, file)) !== "string";
  yield* isHere
    ? createReadStream(pathOfFile(folder, file.sha256), { highWaterMark: 1024 * 1024 })
    : bucket.read(pathOfFile("", file.sha256), file.sizeBytes);
}

/** A file in the folder or in the bucket. */
export interface FoundFile {
  /** Below the folder or the bucket. */
  readonly path: string;
  /** The whole path or address, for messages. */
  readonly at: string;
  readonly sizeBytes: number;
  readonly changedAt: Date;
  /** The bucket, if the file is there. */
  readonly bucket?: Bucket;
}

/** Lists the files in the folder and in the bucket, without unfinished copies. */
export async function listFiles(place: ModelsPlace): Promise<FoundFile[]> {
  const folder = modelsFolderOf(place);
  const bucket = openModelsBucket(place);
  const found: FoundFile[] = [];
  for (const path of await listStored(folder)) {
    const at = join(folder, path);
    // It may have been removed in the meantime.
    const seen = await stat(at).catch(() => undefined);
    if (seen !== undefined) found.push({ path, at, sizeBytes: seen.size, changedAt: seen.mtime });
  }
  for await (const { name, ...object } of bucket?.list() ?? [])
    found.push({ path: name, at: `${bucket?.url}/${name}`, ...object, ...(bucket && { bucket }) });
  return found;
}

/**
 * The model files of an installation: in the folder `models` of the data folder, or in the folder that all hosts share.
 * With a bucket, the bucket has all files under the same names, and the folder of each host is a cache of them.
 */
import { constants, createReadStream, existsSync, fstatSync, rmSync, utimesSync } from "node:fs";
import { open, stat, statfs } from "node:fs/promises";
import { basename, join } from "node:path";
import { isForeignPath, makeDataFolder } from "../base/host/mod.ts";
import { openNamedFile, readChunks } from "../base/read_regular_file.ts";
import { isRefusal, type Refusal, refuse } from "../base/refusal.ts";
import { hasCode } from "../base/system_error.ts";
import type { Sql } from "../database/mod.ts";
import { readHeld } from "./_hold_marks.ts";
import { type Bucket, BucketFailure, type BucketSettings, openBucket } from "./bucket/mod.ts";
import {
  type CopyOptions,
  type FileProblem,
  hasBytes,
  isStoredAs,
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
  "Cannot store the file: it is larger than the cache from which it is served; raise CLAVIGER_MODELS_CACHE_GB",
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
    const refusal = await check(stored);
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
}

/**
 * Puts the file at a path into the bucket, reads it back, and compares it with its SHA-256. A file that is there
 * already is only compared. Throws if the bucket does not have the right bytes afterwards.
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
  { onProgress, sha256, sizeBytes }: Transfer,
): Promise<void> {
  const chunks = bucket.read(pathOfFile("", sha256), sizeBytes);
  await keepFile(folder, chunks, { sizeBytes, onProgress }, async (stored) => {
    if (stored.sha256 === sha256) return undefined;
    throw new BucketFailure(bucket.url, `it has other bytes under the name ${sha256}`);
  });
}

/** One of the copies of a file that an installation can have. */
export interface FileCopy {
  readonly isInBucket: boolean;
  /** Reads its bytes, and compares nothing. Throws if it is missing. */
  read(): AsyncIterable<Buffer>;
}

/** Lists where a file can be, the nearest first: in the folder, and with a bucket in the bucket. */
export async function listCopies(place: ModelsPlace, file: StoredFile): Promise<FileCopy[]> {
  const folder = modelsFolderOf(place);
  const here: FileCopy = {
    isInBucket: false,
    read: () => createReadStream(pathOfFile(folder, file.sha256), { highWaterMark: 1024 * 1024 }),
  };
  if (place.modelsBucket === undefined) return [here];
  const there: FileCopy = {
    isInBucket: true,
    async *read() {
      yield* openBucket(place.modelsBucket as BucketSettings).read(
        pathOfFile("", file.sha256),
        file.sizeBytes,
      );
    },
  };
  const isHere = typeof (await locateFile(folder, file)) !== "string";
  return isHere ? [here, there] : [there];
}

/** Reads the files that the registry has, in the order of their SHA-256. */
export function selectFiles(sql: Sql) {
  return sql<StoredFile[]>`
    select sha256, size_bytes as "sizeBytes" from model_files order by sha256 collate "C"`;
}

/** Reads which versions of models have a file, each as `name version`. */
export async function selectVersionsOf(sql: Sql, { sha256 }: Pick<StoredFile, "sha256">): Promise<string[]> {
  const rows = await sql<{ version: string }[]>`
    select m.name || ' ' || v.version as version
      from model_versions v join models m on m.id = v.model_id
     where v.file = ${sha256}
     order by m.name collate "C", v.created_at`;
  return rows.map(({ version }) => version);
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
  // Before the list: a fetch that ends meanwhile then counts twice, and not never.
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
    // At once after that look, so that nobody finds it in between.
    rmSync(at, { force: true });
    excessBytes -= sizeBytes;
  }
  if (excessBytes <= 0) return undefined;
  return (
    `the cache or the disk of ${folder} has no room for it beside the files that are being read; free some space, ` +
    "run `claviger models purge` on this host, or raise CLAVIGER_MODELS_CACHE_GB"
  );
}

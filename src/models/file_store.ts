/**
 * The model files of this host: each under its SHA-256, `models/ab/abcdef…` in the data folder.
 *
 * A file appears under its name when it is complete and synced, and never changes after that. It is written under
 * another name in the same folder and then renamed. An interrupted copy leaves an unfinished file, which later
 * copies remove. No name from outside is part of a path: the registry has the SHA-256.
 */

import { createHash, randomBytes } from "node:crypto";
import { constants, fstatSync } from "node:fs";
import { chmod, type FileHandle, mkdir, open, readdir, rename, rm, stat, statfs } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { HOUR_MS } from "../calendar.ts";
import { makeDataFolder } from "../host/mod.ts";
import { openNamedFile, openRegularFile, readChunks } from "../read_regular_file.ts";
import { isRefusal, type Refusal, refuse } from "../refusal.ts";
import { syncPath } from "../sync_path.ts";
import { codeOf, hasCode } from "../system_error.ts";

/** The checksum and size of a stored file. */
export interface StoredFile {
  /** 64 lowercase hexadecimal digits. */
  readonly sha256: string;
  readonly sizeBytes: number;
}

/** Called with the progress in bytes. If it throws, the work ends and leaves nothing behind. */
export type OnProgress = (doneBytes: number, totalBytes: number) => void;

export interface StoreOptions {
  readonly now: Date;
  readonly onProgress: OnProgress;
}

export type FileProblem = "missing" | "unreadable" | "changed";

/** So much of the disk stays free, for the database and for other programs. */
export const LEAST_FREE_BYTES = 256 * 1024 * 1024;
/** The refusal if the disk has no room for a file. */
export const NO_ROOM = refuse(
  "SERVICE_UNAVAILABLE",
  "Cannot store the file: the disk of the service has no room for it; free some space, or move the data folder",
);

const FOLDER_MODE = 0o750;
const FILE_MODE = 0o640;
const UNFINISHED = /^unfinished-[0-9a-f]{16}$/;
/** A running copy writes to its file all the time: an unfinished file of this age belongs to a process that ended. */
const ABANDONED_MS = HOUR_MS;

/** Returns the folder of the model files in a data folder. */
export function modelsFolderOf(dataDir: string): string {
  return join(dataDir, "models");
}

/** Returns the path of the file with that SHA-256. */
export function pathOfFile(folder: string, sha256: string): string {
  if (!isSha256(sha256)) throw new RangeError("Cannot name a model file: it must go by its SHA-256");
  return join(folder, sha256.slice(0, 2), sha256);
}

/** Tells whether a text is a SHA-256: 64 lowercase hexadecimal digits. */
export function isSha256(text: string): boolean {
  return /^[0-9a-f]{64}$/.test(text);
}

/**
 * Copies a file into the store and returns its SHA-256 and size. The same bytes are stored once. Refuses a path that
 * is not a file, and a file that changes during the copy. Throws the errors of the file system.
 */
export async function storeFile(
  dataDir: string,
  source: string,
  { now, onProgress }: StoreOptions,
): Promise<StoredFile | Refusal> {
  const cannot = (why: string) => refuse("INVALID_REQUEST", `Cannot add model: ${source}: ${why}`);
  // Without O_NONBLOCK, opening a pipe waits until another process writes to it.
  const from = openNamedFile(source, constants.O_NONBLOCK);
  try {
    if (!from.stat.isFile()) return cannot("it is not a file");
    await makeStore(dataDir, now);
    const options = { sizeBytes: from.stat.size, onProgress };
    return await keepFile(modelsFolderOf(dataDir), readChunks(from.fd), options, async (stored) => {
      const after = fstatSync(from.fd);
      return stored.sizeBytes !== after.size || from.stat.mtimeMs !== after.mtimeMs
        ? cannot("it changed while it was read; try again when nothing writes to it")
        : undefined;
    });
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
 * behind.
 */
export async function storeBytes(
  dataDir: string,
  chunks: AsyncIterable<Uint8Array>,
  { now, neededBytes, check = async () => undefined, ...options }: BytesOptions,
): Promise<StoredFile | Refusal> {
  await makeStore(dataDir, now);
  const { bavail, bsize } = await statfs(modelsFolderOf(dataDir));
  if (neededBytes !== undefined && bavail * bsize < neededBytes + LEAST_FREE_BYTES) return NO_ROOM;
  return await keepFile(modelsFolderOf(dataDir), chunks, options, check);
}

/** Creates the missing folders. With an external database the data folder can be missing, too. */
async function makeStore(dataDir: string, now: Date): Promise<void> {
  const made = makeDataFolder(dataDir);
  if (isRefusal(made)) throw new Error(made.sentence);
  await prepareFolder(modelsFolderOf(dataDir), now);
}

/** Creates the folder of a store, and removes the unfinished files of interrupted copies. */
export async function prepareFolder(folder: string, now: Date): Promise<void> {
  await makeFolder(folder);
  await sweepUnfinished(folder, now);
}

/**
 * Writes bytes into the folder under their SHA-256. `check` gets the SHA-256, the size and the path of the written file
 * before it has its name; with a refusal, or if it throws, nothing is left.
 */
export async function keepFile(
  folder: string,
  chunks: AsyncIterable<Uint8Array>,
  options: CopyOptions,
  check: (stored: StoredFile, path: string) => Promise<Refusal | undefined>,
): Promise<StoredFile | Refusal> {
  const unfinished = join(folder, `unfinished-${randomBytes(8).toString("hex")}`);
  try {
    const stored = await copy(chunks, unfinished, options);
    const refusal = await check(stored, unfinished);
    if (refusal !== undefined) return refusal;
    const path = pathOfFile(folder, stored.sha256);
    await makeFolder(dirname(path));
    // This also replaces a file of that name: the bytes are the same, and a damaged file is repaired.
    await rename(unfinished, path);
    await syncPath(dirname(path));
    return stored;
  } finally {
    await rm(unfinished, { force: true });
  }
}

/** Returns the path of a stored file, or why it cannot be used. Damage inside the file is not detected here. */
export async function locateFile(
  folder: string,
  file: StoredFile,
): Promise<{ readonly path: string } | FileProblem> {
  const path = pathOfFile(folder, file.sha256);
  let handle: FileHandle;
  try {
    handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    return hasCode(error, "ENOENT") ? "missing" : "unreadable";
  }
  try {
    const found = await handle.stat();
    return found.isFile() && found.size === file.sizeBytes ? { path } : "changed";
  } finally {
    await handle.close();
  }
}

/** Reads the whole file at a path and returns its fault; undefined if it is intact. */
export async function checkStoredFile(
  path: string,
  file: StoredFile,
  onBytes: (bytes: number) => void,
): Promise<FileProblem | undefined> {
  const hash = createHash("sha256");
  let sizeBytes = 0;
  try {
    const found = openRegularFile(path);
    try {
      for await (const chunk of readChunks(found.fd)) {
        hash.update(chunk);
        sizeBytes += chunk.length;
        onBytes(chunk.length);
      }
    } finally {
      found.close();
    }
  } catch (error) {
    if (hasCode(error, "ENOENT")) return "missing";
    if (codeOf(error) !== undefined) return "unreadable";
    throw error;
  }
  return sizeBytes === file.sizeBytes && hash.digest("hex") === file.sha256 ? undefined : "changed";
}

/** Lists the files of the store by their paths below it, without unfinished copies. Empty if there is no store. */
export async function listStored(folder: string): Promise<string[]> {
  const names = await readdir(folder, { recursive: true, withFileTypes: true }).catch((error) => {
    if (hasCode(error, "ENOENT")) return [];
    throw error;
  });
  return names
    .filter((entry) => !entry.isDirectory() && !UNFINISHED.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();
}

/** Removes the files of a store that nothing needs, and returns their number. Every file that is no model file stays. */
export async function removeUnneeded(folder: string, needed: ReadonlySet<string>): Promise<number> {
  const unneeded = (await listStored(folder)).filter(
    (path) => isStoredAs(path) && !needed.has(basename(path)),
  );
  for (const path of unneeded) await rm(join(folder, path), { force: true });
  return unneeded.length;
}

/** Tells whether a path below the store is that of a model file: Claviger made it. */
export function isStoredAs(path: string): boolean {
  return isSha256(basename(path)) && pathOfFile("", basename(path)) === path;
}

async function sweepUnfinished(folder: string, now: Date): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!UNFINISHED.test(name)) continue;
    const path = join(folder, name);
    const found = await stat(path).catch(() => undefined);
    if (found !== undefined && now.getTime() - found.mtimeMs > ABANDONED_MS) await rm(path, { force: true });
  }
}

interface CopyOptions {
  readonly sizeBytes: number;
  readonly onProgress: OnProgress;
}

async function copy(
  chunks: AsyncIterable<Uint8Array>,
  unfinished: string,
  options: CopyOptions,
): Promise<StoredFile> {
  const to = await open(unfinished, "wx", FILE_MODE);
  try {
    await to.chmod(FILE_MODE);
    const hash = createHash("sha256");
    let sizeBytes = 0;
    for await (const chunk of chunks) {
      hash.update(chunk);
      await to.writeFile(chunk);
      sizeBytes += chunk.length;
      options.onProgress(sizeBytes, options.sizeBytes);
    }
    await to.sync();
    return { sha256: hash.digest("hex"), sizeBytes };
  } finally {
    await to.close();
  }
}

async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: FOLDER_MODE });
  } catch (error) {
    if (hasCode(error, "EEXIST")) return;
    throw error;
  }
  await chmod(path, FOLDER_MODE);
  await syncPath(dirname(path));
}

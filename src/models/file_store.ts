/**
 * The model files in a folder: each under its SHA-256, `ab/abcdef…`.
 *
 * A file appears under its name when it is complete and synced, and never changes after that. It is written under
 * another name in the same folder and then renamed. An interrupted copy leaves an unfinished file, which later
 * copies remove. No name from outside is part of a path: the registry has the SHA-256.
 */

import { createHash, randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { chmod, type FileHandle, mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { HOUR_MS } from "../base/calendar.ts";
import { openRegularFile, readChunks } from "../base/read_regular_file.ts";
import type { Refusal } from "../base/refusal.ts";
import { syncPath } from "../base/sync_path.ts";
import { codeOf, hasCode } from "../base/system_error.ts";

/** The checksum and size of a stored file. */
export interface StoredFile {
  /** 64 lowercase hexadecimal digits. */
  readonly sha256: string;
  readonly sizeBytes: number;
}

/** Called with the progress in bytes. If it throws, the work ends and leaves nothing behind. */
export type OnProgress = (doneBytes: number, totalBytes: number) => void;

export type FileProblem = "missing" | "unreadable" | "changed";

const FOLDER_MODE = 0o750;
const FILE_MODE = 0o640;
const UNFINISHED = /^unfinished-[0-9a-f]{16}$/;
/** A running copy writes to its file all the time: an unfinished file of this age belongs to a process that ended. */
const ABANDONED_MS = HOUR_MS;

/** Returns the path of the file with that SHA-256. In a bucket this is its name, with an empty folder. */
export function pathOfFile(folder: string, sha256: string): string {
  if (!isSha256(sha256)) throw new RangeError("Cannot name a model file: it must go by its SHA-256");
  return join(folder, sha256.slice(0, 2), sha256);
}

/** Tells whether a text is a SHA-256: 64 lowercase hexadecimal digits. */
export function isSha256(text: string): boolean {
  return /^[0-9a-f]{64}$/.test(text);
}

/** Creates the folder of a store, and removes the unfinished files of interrupted copies. */
export async function prepareFolder(folder: string, now: Date): Promise<void> {
  await makeFolder(folder);
  for (const name of await readdir(folder)) {
    if (!UNFINISHED.test(name)) continue;
    const path = join(folder, name);
    const found = await stat(path).catch(() => undefined);
    if (found !== undefined && now.getTime() - found.mtimeMs > ABANDONED_MS) await rm(path, { force: true });
  }
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
  try {
    using found = openRegularFile(path);
    return (await hasBytes(file, readChunks(found.fd), onBytes)) ? undefined : "changed";
  } catch (error) {
    if (hasCode(error, "ENOENT")) return "missing";
    if (codeOf(error) !== undefined) return "unreadable";
    throw error;
  }
}

/** Tells whether these are the bytes of the file. */
export async function hasBytes(
  file: StoredFile,
  chunks: AsyncIterable<Buffer>,
  onBytes: (bytes: number) => void,
): Promise<boolean> {
  const hash = createHash("sha256");
  let sizeBytes = 0;
  for await (const chunk of chunks) {
    hash.update(chunk);
    sizeBytes += chunk.length;
    onBytes(chunk.length);
  }
  return sizeBytes === file.sizeBytes && hash.digest("hex") === file.sha256;
}

/** Lists the files of the store by their paths below it, without unfinished copies. Empty if there is no store. */
export async function listStored(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((error) => {
    if (hasCode(error, "ENOENT")) return [];
    throw error;
  });
  // Names with a dot are those of shared_folder.ts and cache_room.ts.
  const stored = entries.filter(({ name }) => !name.startsWith(".") && !UNFINISHED.test(name));
  const paths = stored.map(async (entry) => {
    if (!entry.isDirectory()) return [entry.name];
    // Folder by folder: with `recursive` Bun also lists the files behind a link, which are not ours to delete.
    const below = await listStored(join(folder, entry.name));
    return below.map((path) => join(entry.name, path));
  });
  return (await Promise.all(paths)).flat().sort();
}

/** Removes the model files that nothing needs, and returns their number. Every other file in the folder stays. */
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

export interface CopyOptions {
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

export async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: FOLDER_MODE });
  } catch (error) {
    if (hasCode(error, "EEXIST")) return;
    throw error;
  }
  await chmod(path, FOLDER_MODE);
  await syncPath(dirname(path));
}

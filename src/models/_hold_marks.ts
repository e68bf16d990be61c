/**
 * The marks by which the processes on a cache know what each license holds and fetches:
 *
 *     .held/HOLDER/hold-SHA256-SIZE-PROCESS   a file that a process holds for the license
 *     .held/HOLDER/fetching                   a fetch in progress; its text is the size, once the cache has room for it
 *     .held/HOLDER/fetched-SIZE-RANDOM        a fetch of the last hour
 *
 * HOLDER is a keyed hash, from which nobody learns the license. The modification time of the first two is a sign of
 * life, so the marks of a killed process count for 15 s at most. They may be deleted at any time.
 *
 * Times are those of the host, because each process compares them with its own.
 */
import { randomBytes } from "node:crypto";
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { HOUR_MS } from "../base/calendar.ts";
import { hasCode } from "../base/system_error.ts";
import type { StoredFile } from "./file_store.ts";

/** Without a sign of life for this time, a mark does not count. */
export const SILENCE_MS = 15_000;

const FOLDER_MODE = 0o750;
const FILE_MODE = 0o640;
const HOLD = /^hold-([0-9a-f]{64})-(\d+)-[0-9a-f]+$/;
const FETCHED = /^fetched-(\d+)-[0-9a-f]+$/;
const FETCHING = "fetching";

/** Returns the folder of all marks. `file_store.ts` passes over names with a dot. */
const marksFolderOf = (folder: string) => join(folder, ".held");

/** Returns the path of the mark of a process that holds a file. */
export function holdPathOf(
  folder: string,
  { holder, file, process }: { readonly holder: string; readonly file: StoredFile; readonly process: string },
): string {
  return join(marksFolderOf(folder), holder, `hold-${file.sha256}-${file.sizeBytes}-${process}`);
}

/** Returns the path of the mark of a fetch in progress. */
export function fetchingPathOf(folder: string, holder: string): string {
  return join(marksFolderOf(folder), holder, FETCHING);
}

/** Notes a fetch of so many bytes for an hour; returns the path of its mark. */
export function noteFetched(
  folder: string,
  { holder, sizeBytes }: { readonly holder: string; readonly sizeBytes: number },
): string {
  const name = `fetched-${sizeBytes}-${randomBytes(4).toString("hex")}`;
  const path = join(marksFolderOf(folder), holder, name);
  writeMark(path);
  return path;
}

/** Returns the files that a license holds, as sizes by SHA-256. */
export function listHolds(folder: string, holder: string): Map<string, number> {
  const found = new Map<string, number>();
  for (const { name, ageMs } of marksOf(folder, holder)) {
    const [, sha256 = "", size] = HOLD.exec(name) ?? [];
    if (size !== undefined && isAlive(ageMs)) found.set(sha256, Number(size));
  }
  return found;
}

/** Returns the fetches of a license in the last hour, the oldest first. */
export function listFetches(folder: string, holder: string) {
  const found = marksOf(folder, holder).flatMap(({ name, ageMs }) => {
    const [, size] = FETCHED.exec(name) ?? [];
    return size !== undefined && Math.abs(ageMs) < HOUR_MS ? { sizeBytes: Number(size), ageMs } : [];
  });
  return found.sort((one, other) => other.ageMs - one.ageMs);
}

/** Returns the SHA-256 of all files that are held, and the bytes that fetches in progress need. */
export function readHeld(folder: string) {
  const held = new Set<string>();
  let fetchedBytes = 0;
  for (const holder of namesIn(marksFolderOf(folder))) {
    for (const sha256 of listHolds(folder, holder).keys()) held.add(sha256);
    const path = fetchingPathOf(folder, holder);
    if (isAlive(ageOf(path))) fetchedBytes += readSize(path);
  }
  return { held, fetchedBytes };
}

/** Deletes the marks that do not count any more, and empty folders. */
export function deleteOldMarks(folder: string): void {
  for (const holder of namesIn(marksFolderOf(folder))) {
    for (const { name, path, ageMs } of marksOf(folder, holder)) {
      const isOld = FETCHED.test(name) ? Math.abs(ageMs) >= HOUR_MS : !isAlive(ageMs);
      if (isOld) rmSync(path, { force: true });
    }
    try {
      rmdirSync(join(marksFolderOf(folder), holder));
    } catch {
      // It has other marks.
    }
  }
}

/** Writes a mark, or renews its sign of life. */
export function writeMark(path: string, text = ""): void {
  inItsFolder(path, () => writeFileSync(path, text, { mode: FILE_MODE }));
  setTime(path);
}

/** Writes a mark of which only one may be alive; returns false if another one is. */
export function writeLoneMark(path: string): boolean {
  // Two processes that delete the mark of a killed one at the same moment would both go on. That costs one fetch.
  if (!isAlive(ageOf(path))) rmSync(path, { force: true });
  try {
    inItsFolder(path, () => writeFileSync(path, "", { mode: FILE_MODE, flag: "wx" }));
  } catch (error) {
    if (hasCode(error, "EEXIST")) return false;
    throw error;
  }
  setTime(path);
  return true;
}

export function deleteMark(path: string): void {
  rmSync(path, { force: true });
}

/** The folder can be deleted at any moment, because it was empty. */
function inItsFolder(path: string, write: () => void): void {
  for (const isLast of [false, true]) {
    mkdirSync(dirname(path), { recursive: true, mode: FOLDER_MODE });
    try {
      write();
      return;
    } catch (error) {
      if (isLast || !hasCode(error, "ENOENT")) throw error;
    }
  }
}

function setTime(path: string): void {
  try {
    const now = new Date();
    utimesSync(path, now, now);
  } catch (error) {
    // Somebody emptied the cache.
    if (!hasCode(error, "ENOENT")) throw error;
  }
}

/** After a step of the clock a sign of life can be in the future. */
function isAlive(ageMs: number): boolean {
  return Math.abs(ageMs) < SILENCE_MS;
}

function marksOf(folder: string, holder: string) {
  const own = join(marksFolderOf(folder), holder);
  return namesIn(own).map((name) => {
    const path = join(own, name);
    return { name, path, ageMs: ageOf(path) };
  });
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (hasCode(error, "ENOENT") || hasCode(error, "ENOTDIR")) return [];
    throw error;
  }
}

/** Returns the time since the last sign of life of a mark; endless if there is no mark. */
function ageOf(path: string): number {
  return Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Number.NEGATIVE_INFINITY);
}

function readSize(path: string): number {
  try {
    return Number(readFileSync(path, "utf8"));
  } catch (error) {
    if (hasCode(error, "ENOENT")) return 0;
    throw error;
  }
}

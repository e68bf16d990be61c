/** Writes files that appear complete or not at all, and turns errors of the system into sentences. */
import { createHash, randomBytes } from "node:crypto";
import { constants, readdirSync, rmSync, write } from "node:fs";
import { link, open, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { openRegularFile } from "../../base/read_regular_file.ts";
import { syncPath } from "../../base/sync_path.ts";
import { FILE_REASONS, hasCode, type Reasons, reasonOf } from "../../base/system_error.ts";

/** Thrown if a file cannot be written or read. The message is a sentence for the operator. */
export class FileFailure extends Error {}

export interface WrittenFile {
  readonly bytes: number;
  readonly sha256: string;
}

const STANDARD_OUTPUT = 1;

export interface WholeOptions {
  /** Whether an existing file is replaced. */
  readonly replace: boolean;
  /** Locks an open file until it is closed; false if another process has locked it. */
  readonly lock: (fd: number) => boolean;
  /** Called with the written file, before it gets its name. If it throws, the file is removed. */
  readonly check: (path: string) => Promise<void>;
}

/**
 * Creates a file of mode 0600 under a temporary name in the folder of `target`, lets `write` fill it, syncs it to disk,
 * checks it, and then gives it its name. `-` stands for standard output, which cannot be checked. First removes the
 * unfinished files that killed writers left in the folder.
 */
export async function writeWhole<Written>(
  target: string,
  write: (fd: number) => Promise<Written>,
  { replace, lock, check }: WholeOptions,
): Promise<Written> {
  if (target === "-") return await explain("Cannot write standard output", () => write(STANDARD_OUTPUT));
  return await explain(`Cannot write ${target}`, async () => {
    removeAbandoned(dirname(target), lock);
    const unfinished = `${target}.unfinished-${randomBytes(4).toString("hex")}`;
    const file = await open(unfinished, "wx", 0o600);
    try {
      lock(file.fd);
      const written = await write(file.fd);
      await file.sync();
      await check(unfinished);
      if (replace) await rename(unfinished, target);
      else await link(unfinished, target);
      await syncPath(dirname(target));
      return written;
    } finally {
      await file.close();
      await rm(unfinished, { force: true });
    }
  });
}

/** For this time a file may have no lock yet. */
const BEGINNING_MS = 60_000;

/** Removes the unfinished files of this user that no process has locked. Follows no link. */
function removeAbandoned(folder: string, lock: (fd: number) => boolean): void {
  for (const name of readdirSync(folder).filter((each) => /.\.unfinished-[0-9a-f]{8}$/.test(each))) {
    const path = join(folder, name);
    try {
      const { fd, stat, close } = openRegularFile(path, constants.O_NOFOLLOW);
      const isAbandoned = stat.uid === process.geteuid?.() && Date.now() - stat.mtimeMs > BEGINNING_MS;
      if (isAbandoned && lock(fd)) rmSync(path);
      close();
    } catch {
      // A link, a file of another user, or one that is gone.
    }
  }
}

/** Throws early the errors that {@linkcode writeWhole} would throw at its end. */
export async function checkPlace(target: string, options: { readonly replace: boolean }): Promise<void> {
  if (target === "-") return;
  await explain(`Cannot write ${target}`, async () => {
    const found = await stat(target).catch(() => undefined);
    if (found !== undefined && !(options.replace && found.isFile()))
      throw Object.assign(new Error("EEXIST"), { code: "EEXIST", syscall: "open" });
    await stat(dirname(target));
  });
}

export async function writeThrough(fd: number, source: AsyncIterable<Uint8Array>): Promise<WrittenFile> {
  const hash = createHash("sha256");
  let bytes = 0;
  for await (const chunk of source) {
    await writeAll(fd, chunk);
    hash.update(chunk);
    bytes += chunk.length;
  }
  return { bytes, sha256: hash.digest("hex") };
}

const PAUSE_MS = 5;

async function writeAll(fd: number, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    try {
      at += (await writeSome(fd, bytes, at)).bytesWritten;
    } catch (error) {
      // A full pipe in non-blocking mode: its reader must read some bytes first.
      if (!hasCode(error, "EAGAIN")) throw error;
      await sleep(PAUSE_MS);
    }
  }
}

const writeSome = promisify(write);

/** Runs `work` on a file. Turns an error of the system into a sentence that begins with `what`. */
export async function explain<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw explained(what, error);
  }
}

/** Returns a failure that begins with `what` for an error of the system, and every other error as it is. */
export function explained(what: string, error: unknown): unknown {
  const isSystem = error instanceof Error && "syscall" in error;
  return isSystem ? new FileFailure(`${what}: ${reasonOf(error, REASONS)}`, { cause: error }) : error;
}

const REASONS: Reasons = {
  ...FILE_REASONS,
  EEXIST: "there is a file of that name; choose another, or replace it with --force",
  ENOENT: "there is no such file or folder",
  ENOTDIR: "a part of that path is a file",
  EISDIR: "it is a folder; name a file",
  EACCES: "this user may not use it; choose another place",
  EPERM:
    "this user may not use it, or its file system has no hard links: choose another place, or use --force",
  EROFS: "its file system cannot be written to; choose another place",
  ENOSPC: "its disk is full; free some space, or choose another place",
  EDQUOT: "the quota of its disk is used up; free some space, or choose another place",
  EOWNER: "another user made its backups; run this as that user, or choose another place",
  EPIPE: "the program that read it has ended",
};

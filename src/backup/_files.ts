/** Files that appear whole or not at all, and what may go wrong with them, in words. */
import { createHash, randomBytes } from "node:crypto";
import { type FileHandle, link, open, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";

/** Thrown where a file cannot be written or read: a sentence for the operator. */
export class FileFailure extends Error {}

export interface WrittenFile {
  readonly bytes: number;
  readonly sha256: string;
}

/**
 * Writes a file of mode 0600 beside its place, forces it to disk and only then gives it its name. An
 * existing one is replaced with `replace` alone. `-` stands for standard output.
 */
export async function writeWhole(
  path: string,
  source: AsyncIterable<Uint8Array>,
  options: { readonly replace: boolean },
): Promise<WrittenFile> {
  if (path === "-")
    return await explain("Cannot write standard output", () => writeThrough("/dev/stdout", "a", source));
  return await explain(`Cannot write ${path}`, async () => {
    const unfinished = `${path}.unfinished-${randomBytes(4).toString("hex")}`;
    try {
      const written = await writeThrough(unfinished, "wx", source);
      if (options.replace) await rename(unfinished, path);
      else await link(unfinished, path);
      const folder = await open(dirname(path), "r");
      await folder.sync().finally(() => folder.close());
      return written;
    } finally {
      await rm(unfinished, { force: true });
    }
  });
}

/** Refuses early what {@linkcode writeWhole} would refuse at its end. */
export async function checkPlace(path: string, options: { readonly replace: boolean }): Promise<void> {
  if (path === "-") return;
  await explain(`Cannot write ${path}`, async () => {
    const found = await stat(path).catch(() => undefined);
    if (found !== undefined && !(options.replace && found.isFile())) throw codedError("EEXIST");
    await stat(dirname(path));
  });
}

async function writeThrough(
  path: string,
  flag: string,
  source: AsyncIterable<Uint8Array>,
): Promise<WrittenFile> {
  const hash = createHash("sha256");
  let bytes = 0;
  const file = await open(path, flag, 0o600);
  try {
    for await (const chunk of source) {
      await writeAll(file, chunk);
      hash.update(chunk);
      bytes += chunk.length;
    }
    if (flag !== "a") await file.sync();
  } finally {
    await file.close();
  }
  return { bytes, sha256: hash.digest("hex") };
}

async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length; ) at += (await file.write(bytes, at)).bytesWritten;
}

/** Runs `work` on a file; what the system refused becomes a sentence that begins with `what`. */
export async function explain<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const isSystem = error instanceof Error && "code" in error && "syscall" in error;
    if (!isSystem) throw error;
    const code = String(error.code);
    throw new FileFailure(`${what}: ${REASONS[code] ?? error.message}`, { cause: error });
  }
}

function codedError(code: string): Error {
  return Object.assign(new Error(code), { code, syscall: "open" });
}

const REASONS: Readonly<Record<string, string>> = {
  EEXIST: "there is a file of that name; choose another, or replace it with --force",
  ENOENT: "there is no such file or folder",
  ENOTDIR: "a part of that path is a file",
  EISDIR: "it is a folder; name a file",
  EACCES: "this user may not; run as root or as the user it belongs to, or choose another place",
  EPERM: "this user may not, or its file system has no hard links: choose another place, or use --force",
  EROFS: "its file system cannot be written to; choose another place",
  ENOSPC: "its disk is full; free some space, or choose another place",
  EDQUOT: "the quota of its disk is used up; free some space, or choose another place",
  EPIPE: "whoever read it has gone",
};

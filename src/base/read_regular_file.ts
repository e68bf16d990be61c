import { closeSync, constants, fstatSync, openSync, read, readSync } from "node:fs";
import { promisify } from "node:util";
import { FILE_REASONS, hasCode, type Reasons } from "./system_error.ts";

/** The limit for a file of certificates. All public authorities together need a fifth of it. */
export const CERTIFICATES_LIMIT_BYTES = 1024 * 1024;

export type OpenFile = ReturnType<typeof openNamedFile>;

/**
 * Opens a regular file for reading. Throws if another user put something else at the path: reading a named pipe could
 * wait forever, and reading a device could never end. The errors have a `code`, like those of the file system. With
 * `O_NOFOLLOW` in `flags` a symbolic link is refused, too.
 */
export function openRegularFile(path: string, flags = 0): OpenFile {
  const named = openNamedFile(path, constants.O_NONBLOCK | constants.O_NOCTTY | flags);
  if (named.stat.isFile()) return named;
  named.close();
  throw failure(named.stat.isDirectory() ? "EISDIR" : "ENOTREG", path);
}

/** Opens a file that the operator named; it may be a pipe. With `using` it is closed at the end of the block. */
export function openNamedFile(path: string, flags = 0) {
  // Examined after opening: if it were examined before, another user could exchange the file in between.
  const fd = openSync(path, constants.O_RDONLY | flags);
  const close = () => closeSync(fd);
  try {
    return { fd, stat: fstatSync(fd), close, [Symbol.dispose]: close };
  } catch (error) {
    close();
    throw error;
  }
}

/** Tells whether this user may read a file; true for any other fault of it, such as a missing file. */
export function isReadable(path: string): boolean {
  try {
    openRegularFile(path).close();
    return true;
  } catch (error) {
    return !hasCode(error, "EACCES");
  }
}

/** Reads a small file that {@linkcode openRegularFile} opens. Also throws for a file larger than `limitBytes`. */
export function readRegularFile(path: string, limitBytes: number, flags = 0): string {
  using file = openRegularFile(path, flags);
  return readSmall(file, path, limitBytes);
}

/** Reads a small file that {@linkcode openNamedFile} opens, which may be a pipe. */
export function readNamedFile(path: string, limitBytes: number): string {
  using file = openNamedFile(path);
  return readSmall(file, path, limitBytes);
}

function readSmall({ fd, stat }: OpenFile, path: string, limitBytes: number): string {
  if (stat.size > limitBytes) throw failure("EFBIG", path);
  const bytes = Buffer.alloc(limitBytes + 1);
  let size = 0;
  for (let got = -1; got !== 0 && size < bytes.length; size += got)
    got = readSync(fd, bytes, size, bytes.length - size, null);
  if (size > limitBytes) throw failure("EFBIG", path);
  return bytes.toString("utf8", 0, size);
}

/**
 * Reads the bytes of an open file: from its current position, or with `end` from 0 to `end`. A chunk is valid until the
 * next one is read. Not a stream: Bun 1.4.5 closes a stream's descriptor when its reader stops early.
 */
export async function* readChunks(fd: number, end?: number): AsyncGenerator<Buffer> {
  const buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  for (let at = 0; at !== end; ) {
    const length = Math.min(buffer.length, (end ?? Number.POSITIVE_INFINITY) - at);
    const { bytesRead } = await readSome(fd, buffer, 0, length, end === undefined ? null : at);
    if (bytesRead === 0) return;
    yield buffer.subarray(0, bytesRead);
    at += bytesRead;
  }
}

const CHUNK_BYTES = 1024 * 1024;
const readSome = promisify(read);

function failure(code: string, path: string): Error {
  const reasons: Reasons = FILE_REASONS;
  const message = `Cannot read ${path}: ${reasons[code] ?? code}`;
  return Object.assign(new Error(message), { code, path, syscall: "open" });
}

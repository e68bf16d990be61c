import { closeSync, constants, fstatSync, openSync, read, readSync, type Stats } from "node:fs";
import { promisify } from "node:util";

export interface RegularFile {
  readonly text: string;
  /** The user to whom it belongs. */
  readonly uid: number;
}

export interface OpenFile {
  readonly fd: number;
  readonly stat: Stats;
  close(): void;
}

/**
 * Opens a file for reading whose path somebody else chose, or that others may put something in the place of:
 * throws for what is no regular file, where reading could wait forever, as from a named pipe, or never end. What
 * it throws has a `code`, as the file system's own errors do. `O_NOFOLLOW` as `flags` refuses a link, too.
 */
export function openRegularFile(path: string, flags = 0): OpenFile {
  const named = openNamedFile(path, constants.O_NONBLOCK | constants.O_NOCTTY | flags);
  if (named.stat.isFile()) return named;
  named.close();
  throw failure(named.stat.isDirectory() ? "EISDIR" : "ENOTREG", path);
}

/**
 * Opens what the operator named, whatever it is: a pipe too. But where root opened for this process what root may,
 * anything else is only a regular file: root waits for this process.
 */
export function openNamedFile(path: string, flags = 0): OpenFile {
  const given = givenFiles?.get(path);
  if (typeof given === "string") throw failure(given, path);
  if (givenFiles !== undefined && given === undefined && (flags & constants.O_NONBLOCK) === 0)
    return openRegularFile(path, flags);
  // Looked at once it is open: a look before would be at what stood there then. Opening waits for nobody.
  const fd = given ?? openSync(path, constants.O_RDONLY | flags);
  const close = given === undefined ? () => closeSync(fd) : () => {};
  try {
    return { fd, stat: fstatSync(fd), close };
  } catch (error) {
    close();
    throw error;
  }
}

/** Reads a small file as {@linkcode openRegularFile} opens it; throws for one larger than `limitBytes`, too. */
export function readRegularFile(path: string, limitBytes: number, flags = 0): RegularFile {
  const { fd, stat, close } = openRegularFile(path, flags);
  try {
    if (stat.size > limitBytes) throw failure("EFBIG", path);
    const bytes = Buffer.alloc(limitBytes + 1);
    let size = 0;
    // By position: a file that was given to this process may have been read before.
    for (let read = -1; read !== 0 && size < bytes.length; size += read)
      read = readSync(fd, bytes, size, bytes.length - size, size);
    if (size > limitBytes) throw failure("EFBIG", path);
    return { text: bytes.toString("utf8", 0, size), uid: stat.uid };
  } finally {
    close();
  }
}

/**
 * The bytes of an open file, from where it stands or, by position, up to `end`; each chunk is there until the next
 * is asked for. Not by a stream: Bun 1.4.5 closes a stream's descriptor where its reader stops early.
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

/**
 * Files that were opened for this process by one with other rights: descriptors by path, or the code of the
 * error that opening gave. They stay open, and are read from where they stand or by position.
 */
export function giveFiles(files: Readonly<Record<string, number | string>>): void {
  givenFiles = new Map(Object.entries(files));
}

let givenFiles: ReadonlyMap<string, number | string> | undefined;

function failure(code: string, path: string): Error {
  return Object.assign(new Error(`Cannot read ${path}: ${code}`), { code, path, syscall: "open" });
}

import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";

export interface RegularFile {
  readonly text: string;
  /** The user to whom it belongs. */
  readonly uid: number;
}

/**
 * Reads a small file whose path somebody else chose, or that others may put something in the place of: throws
 * for what is no regular file, where reading could wait forever, as from a named pipe, or never end, and for
 * one that is larger than `limitBytes`. What it throws has a `code`, as the file system's own errors do.
 */
export function readRegularFile(path: string, limitBytes: number): RegularFile {
  // Looked at once it is open: a look before would be at what stood there then. Opening waits for nobody.
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  try {
    const stat = fstatSync(file);
    if (stat.isDirectory()) throw failure("EISDIR", path);
    if (!stat.isFile()) throw failure("ENOTREG", path);
    if (stat.size > limitBytes) throw failure("EFBIG", path);
    return { text: readFileSync(file, "utf8"), uid: stat.uid };
  } finally {
    closeSync(file);
  }
}

function failure(code: string, path: string): Error {
  return Object.assign(new Error(`Cannot read ${path}: ${code}`), { code });
}

/**
 * Writes and reads tar files in one form alone: plain files with mode 0644 and plain names, as `tar_header.ts` has them, padded
 * with zeros, and two blocks of zeros at the end. Every tar program opens such a file. The same entries give the same bytes, and
 * the reader accepts no other bytes. So whoever knows the entries and the SHA-256 of their contents knows every byte of the file.
 */
import { createByteReader } from "./byte_reader.ts";
import {
  isZero,
  parseTarHeader,
  renderTarHeader,
  TAR_BLOCK_BYTES,
  TAR_END,
  TAR_OCTAL_SIZES,
  type TarEntry,
  tarPadding,
} from "./tar_header.ts";

/** A file to write. */
export interface TarFile extends TarEntry {
  /** Returns its bytes. Each chunk is used before the next one is read. */
  read(): AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

/** A file that was read. */
export interface ReadTarFile extends TarEntry {
  /** Returns its bytes, once. A chunk is valid until the next one is read. What is not read is skipped. */
  content(): AsyncGenerator<Uint8Array, undefined>;
}

/** Thrown for bytes that are not a tar file in this form. The message says why: `it ends too early`. */
export class NotCanonicalTar extends Error {}

const MODE = 0o644;
export const TAR_PATH_BYTES = 100;
/** One byte less than 8 GiB: the field of the size has 11 octal digits. */
export const TAR_FILE_LIMIT_BYTES = TAR_OCTAL_SIZES - 1;
const LATEST_SECONDS = 8 ** 11 - 1;

const NAME = /^\w[\w.+-]*$/;

/** Tells whether a text is a name for a file or a folder: no name begins with a dot or a dash. */
export function isTarName(name: string): boolean {
  return NAME.test(name);
}

/** Tells whether a text can be the path of an entry: names that are joined by slashes. */
export function isTarPath(path: string): boolean {
  return path.length <= TAR_PATH_BYTES && path.split("/").every(isTarName);
}

/** Returns the size of a tar file with these entries. */
export function tarSizeOf(entries: Iterable<Pick<TarEntry, "sizeBytes">>): number {
  let size = TAR_END.length;
  for (const { sizeBytes } of entries) size += TAR_BLOCK_BYTES + sizeBytes + tarPadding(sizeBytes).length;
  return size;
}

/** Writes a tar file. Throws if a file has another size than its entry says, or if an entry cannot be in a tar file. */
export async function* writeTar(files: Iterable<TarFile>): AsyncGenerator<Uint8Array, undefined> {
  for (const file of files) {
    checkEntry(file);
    yield renderTarHeader(file, MODE);
    let left = file.sizeBytes;
    for await (const chunk of file.read()) {
      left -= chunk.length;
      if (left < 0) break;
      yield chunk;
    }
    if (left !== 0) throw new Error(`Cannot write ${file.path}: its size has changed`);
    yield tarPadding(file.sizeBytes);
  }
  yield TAR_END;
  return undefined;
}

function checkEntry({ path, sizeBytes, modifiedAt }: TarEntry): void {
  if (!isTarPath(path)) throw new RangeError("Cannot write a tar file: its paths must be plain and short");
  if (!isWithin(sizeBytes, TAR_FILE_LIMIT_BYTES))
    throw new RangeError(`Cannot write ${path}: it is too large`);
  if (!isWithin(modifiedAt.getTime() / 1_000, LATEST_SECONDS))
    throw new RangeError(`Cannot write ${path}: its time must be whole seconds from 1970 to 2242`);
}

function isWithin(number: number, most: number): boolean {
  return Number.isSafeInteger(number) && number >= 0 && number <= most;
}

/** Reads a tar file. Throws {@linkcode NotCanonicalTar} at the first byte that {@linkcode writeTar} would not have written. */
export async function* readTar(source: AsyncIterable<Uint8Array>): AsyncGenerator<ReadTarFile, undefined> {
  const bytes = createByteReader(source);
  const exactly = async (length: number) => demand(await bytes.exactly(length));
  try {
    for (;;) {
      const header = await exactly(TAR_BLOCK_BYTES);
      if (isZero(header)) break;
      const entry = readHeader(header);
      let left = entry.sizeBytes;
      async function* content() {
        while (left > 0) {
          const chunk = demand(await bytes.some(left));
          left -= chunk.length;
          yield chunk;
        }
        return undefined;
      }
      yield { ...entry, content };
      for await (const _ of content());
      if (!isZero(await exactly(tarPadding(entry.sizeBytes).length)))
        throw new NotCanonicalTar(`something other than zeros follows ${entry.path}`);
    }
    if (!isZero(await exactly(TAR_BLOCK_BYTES))) throw new NotCanonicalTar("only one block of zeros ends it");
    if ((await bytes.some(1)) !== undefined) throw new NotCanonicalTar("something follows its end");
  } finally {
    await bytes.close();
  }
  return undefined;
}

function readHeader(header: Buffer): TarEntry {
  const entry = parseTarHeader(header, MODE);
  if (entry === undefined || !isTarPath(entry.path) || entry.sizeBytes > TAR_FILE_LIMIT_BYTES)
    throw new NotCanonicalTar("the header of a file has another form");
  return entry;
}

function demand<Bytes>(bytes: Bytes | undefined): Bytes {
  if (bytes === undefined) throw new NotCanonicalTar("it ends too early");
  return bytes;
}

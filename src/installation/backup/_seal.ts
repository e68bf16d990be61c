/**
 * The seal of a backup's file, its last 40 bytes: the SHA-256 of all bytes before it, in a frame that Zstandard's
 * readers skip (RFC 8878, section 3.1.2). It detects at once a file that was cut short, which not every runtime's
 * decompressor reports (Bun 1.4.5 does not), and any changed byte, even one that decompresses to the same bytes.
 */
import { createHash } from "node:crypto";
import { readSync } from "node:fs";
import { type OpenFile, openNamedFile, readChunks } from "../../base/read_regular_file.ts";
import { BadBackup, damaged } from "./_errors.ts";

const MAGIC = 0x184d2a5c;
const DIGEST_BYTES = 32;
const SEAL_BYTES = 8 + DIGEST_BYTES;

/** Yields the bytes of `source`, and the seal after them. */
export async function* seal(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const hash = createHash("sha256");
  for await (const bytes of source) {
    hash.update(bytes);
    yield bytes;
  }
  yield renderSeal(hash.digest());
}

/** Yields a file's bytes without the seal; throws at the end if they are not the bytes that were sealed. */
export async function* unseal(path: string): AsyncGenerator<Buffer> {
  using file = openNamedFile(path);
  const { sealed, size } = readSeal(file);
  const hash = createHash("sha256");
  for await (const bytes of readChunks(file.fd, size)) {
    hash.update(bytes);
    // A copy, because the reader may still use these bytes when the next bytes overwrite the buffer.
    yield Buffer.from(bytes);
  }
  if (!renderSeal(hash.digest()).equals(sealed)) throw damaged("it was changed after the backup");
}

function readSeal({ fd, stat }: OpenFile): { readonly sealed: Buffer; readonly size: number } {
  const size = stat.size - SEAL_BYTES;
  const sealed = Buffer.alloc(SEAL_BYTES);
  // A file without a size, such as a pipe, cannot be read twice.
  if (size > 0) readSync(fd, sealed, 0, SEAL_BYTES, size);
  if (sealed.readUInt32LE(0) === MAGIC && sealed.readUInt32LE(4) === DIGEST_BYTES) return { sealed, size };
  throw new BadBackup(
    "it is no backup of Claviger, or it was cut short; use another copy or an earlier backup",
  );
}

function renderSeal(digest: Buffer): Buffer {
  const frame = Buffer.alloc(8);
  frame.writeUInt32LE(MAGIC, 0);
  frame.writeUInt32LE(DIGEST_BYTES, 4);
  return Buffer.concat([frame, digest]);
}

/**
 * The headers of tar files (POSIX.1-1988, "ustar") with plain files of user and group 0 alone. A header has one form: the
 * reader renders it again from its name, size and time, and accepts no other bytes.
 */

export const TAR_BLOCK_BYTES = 512;
/** Sizes below this have eleven octal digits; larger sizes are binary, as in GNU tar, bsdtar and Python's tarfile. */
export const TAR_OCTAL_SIZES = 8 ** 11;
/** The end marker of a tar file. */
export const TAR_END = Buffer.alloc(2 * TAR_BLOCK_BYTES);

export interface TarEntry {
  /** At most 100 bytes, in Latin-1. */
  readonly path: string;
  readonly sizeBytes: number;
  /** Exact to the second, not before 1970. */
  readonly modifiedAt: Date;
}

/** Returns the header of a file with that mode, such as `0o644`. */
export function renderTarHeader({ path, sizeBytes, modifiedAt }: TarEntry, mode: number): Buffer {
  const header = Buffer.alloc(TAR_BLOCK_BYTES);
  const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, "0")}\0`;
  header.write(path, 0, 100);
  header.write(`${octal(mode, 7)}${octal(0, 7)}${octal(0, 7)}`, 100);
  if (sizeBytes < TAR_OCTAL_SIZES) header.write(octal(sizeBytes, 11), 124);
  else {
    header[124] = 0x80;
    header.writeUIntBE(sizeBytes, 130, 6);
  }
  header.write(octal(Math.max(0, Math.floor(modifiedAt.getTime() / 1_000)), 11), 136);
  header.write("0", 156);
  header.write("ustar\x0000", 257);
  header.write(`${octal(sumOf(header), 6)} `, 148);
  return header;
}

/** Reads a header of a file with that mode; undefined for bytes that {@linkcode renderTarHeader} does not return. */
export function parseTarHeader(header: Buffer, mode: number): TarEntry | undefined {
  const path = header.toString("latin1", 0, 100).replace(/\0+$/, "");
  const sizeBytes =
    header[124] === 0x80
      ? header.readUIntBE(130, 6)
      : Number.parseInt(header.toString("latin1", 124, 135), 8);
  const modified = Number.parseInt(header.toString("latin1", 136, 147), 8);
  if (!Number.isSafeInteger(sizeBytes) || !Number.isSafeInteger(modified)) return undefined;
  const entry = { path, sizeBytes, modifiedAt: new Date(modified * 1_000) };
  return renderTarHeader(entry, mode).equals(header) ? entry : undefined;
}

/** Returns the zeros that follow the content of a file. */
export function tarPadding(sizeBytes: number): Buffer {
  return Buffer.alloc((TAR_BLOCK_BYTES - (sizeBytes % TAR_BLOCK_BYTES)) % TAR_BLOCK_BYTES);
}

/** Tells whether all bytes are zeros, as those of the end and of the padding. */
export function isZero(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0);
}

/** Returns the checksum of a header: the sum of its bytes, with the checksum's own field as spaces. */
function sumOf(header: Buffer): number {
  let sum = 8 * 0x20;
  for (const [index, byte] of header.entries()) if (index < 148 || index >= 156) sum += byte;
  return sum;
}

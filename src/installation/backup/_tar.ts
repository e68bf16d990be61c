/**
 * The part of tar (POSIX.1-1988, "ustar") that a backup needs: plain files, one after another.
 *
 * We use no library, for two reasons: our reader must hash every byte, including headers and padding, and it must
 * refuse everything that our writer does not write. A library reads all dialects of tar and skips unknown parts.
 */
import { damaged } from "./_errors.ts";

const BLOCK_BYTES = 512;
/** Sizes below this have eleven octal digits; larger sizes are binary, as in GNU tar, bsdtar and Python's tarfile. */
const OCTAL_SIZES = 8 ** 11;

export interface TarEntry {
  readonly name: string;
  readonly size: number;
}

/** Returns the header of an entry. The name may have at most 100 bytes. */
export function renderTarHeader({ name, size }: TarEntry, modifiedAt: Date): Buffer {
  const header = Buffer.alloc(BLOCK_BYTES);
  const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, "0")}\0`;
  header.write(name, 0, 100);
  header.write(`${octal(0o600, 7)}${octal(0, 7)}${octal(0, 7)}`, 100);
  if (size < OCTAL_SIZES) header.write(octal(size, 11), 124);
  else {
    header[124] = 0x80;
    header.writeUIntBE(size, 130, 6);
  }
  header.write(octal(Math.max(0, Math.floor(modifiedAt.getTime() / 1000)), 11), 136);
  header.write("0", 156);
  header.write("ustar\x0000", 257);
  header.write(`${octal(sumOf(header), 6)} `, 148);
  return header;
}

/** Returns the zeros that follow the content of an entry. */
export function tarPadding(size: number): Buffer {
  return Buffer.alloc((BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES);
}

/** The end marker of a tar. */
export const TAR_END = Buffer.alloc(2 * BLOCK_BYTES);

export type TarReader = ReturnType<typeof readTar>;

/** Reads a tar. `onBytes` gets every byte of it in order, with the name of the entry that contains the byte. */
export function readTar(
  source: AsyncIterable<Buffer>,
  onBytes: (bytes: Buffer, entry: string | undefined) => void,
) {
  const chunks = source[Symbol.asyncIterator]();
  let rest: Buffer = Buffer.alloc(0);
  let entry: TarEntry | undefined;

  /** Reads at least one byte and at most `most` bytes; undefined at the end of the file. */
  async function some(most: number): Promise<Buffer | undefined> {
    while (rest.length === 0) {
      const { value, done } = await chunks.next();
      if (done) return undefined;
      rest = value;
    }
    const taken = rest.subarray(0, most);
    rest = rest.subarray(taken.length);
    return taken;
  }

  async function exactly(count: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    for (let left = count; left > 0; ) {
      const part = await some(left);
      if (part === undefined) throw damaged("it ends too early");
      parts.push(part);
      left -= part.length;
    }
    return Buffer.concat(parts);
  }

  return {
    /** Reads the next entry's header; undefined at the end. Throws if bytes follow the end. */
    async next(): Promise<TarEntry | undefined> {
      const header = await exactly(BLOCK_BYTES);
      if (isZero(header)) {
        if (!isZero(await exactly(BLOCK_BYTES))) throw damaged("it has no valid end marker");
        if ((await some(1)) !== undefined) throw damaged("there are bytes after its end marker");
        return undefined;
      }
      entry = parseTarHeader(header);
      onBytes(header, entry.name);
      return entry;
    },
    /** Yields the content of the current entry. Read it to its end before the next call of `next`. */
    async *bytes() {
      if (entry === undefined) return;
      const { name, size } = entry;
      entry = undefined;
      for (let left = size; left > 0; ) {
        const chunk = await some(left);
        if (chunk === undefined) throw damaged("it ends too early");
        left -= chunk.length;
        onBytes(chunk, name);
        yield chunk;
      }
      const padding = await exactly(tarPadding(size).length);
      if (!isZero(padding)) throw damaged(`the padding after ${name} is not zero`);
      onBytes(padding, name);
    },
  };
}

function parseTarHeader(header: Buffer): TarEntry {
  const name = header.toString("latin1", 0, 100).replace(/\0+$/, "");
  const size =
    header[124] === 0x80
      ? header.readUIntBE(130, 6)
      : Number.parseInt(header.toString("latin1", 124, 135), 8);
  const modified = Number.parseInt(header.toString("latin1", 136, 147), 8);
  // Compare with the header that our writer would render: this detects a change in every other field.
  if (Number.isSafeInteger(size) && Number.isSafeInteger(modified)) {
    if (renderTarHeader({ name, size }, new Date(modified * 1000)).equals(header)) return { name, size };
  }
  throw damaged("the header of a file is not valid");
}

/** Returns the checksum of a header: the sum of its bytes, with the checksum's own field as spaces. */
function sumOf(header: Buffer): number {
  let sum = 8 * 0x20;
  for (const [index, byte] of header.entries()) if (index < 148 || index >= 156) sum += byte;
  return sum;
}

function isZero(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0);
}

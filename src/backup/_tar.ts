/**
 * As much of tar (POSIX.1-1988, "ustar") as a backup needs: plain files, one after another.
 *
 * Of our own, since the reader must see every byte, headers and padding too, to hold them against the
 * backup's sum, and must take nothing but what the writer makes; a library for all of tar's dialects, which
 * reads around what it does not know, is the opposite.
 */

const BLOCK_BYTES = 512;
/** Eleven octal digits; beyond that a size is binary, as GNU tar, bsdtar and Python's tarfile have it. */
const OCTAL_SIZES = 8 ** 11;

export interface TarEntry {
  readonly name: string;
  readonly size: number;
}

/** What stands before an entry's bytes. The name may have 100 bytes. */
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

/** What stands after an entry's bytes. */
export function tarPadding(size: number): Buffer {
  return Buffer.alloc((BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES);
}

/** What a tar ends with. */
export const TAR_END = Buffer.alloc(2 * BLOCK_BYTES);

export interface TarReader {
  /** The next entry; undefined at the end, after which nothing may follow. */
  next(): Promise<TarEntry | undefined>;
  /** The bytes of the entry that `next` gave, which must be read through before the next. */
  bytes(): AsyncGenerator<Buffer>;
}

/** Thrown for what is no tar of ours, with the reason as a phrase. */
export class TarError extends Error {}

/** Reads a tar; `see` is given every byte of it in order, with the name of the entry it belongs to. */
export function readTar(
  source: AsyncIterable<Buffer>,
  see: (bytes: Buffer, entry: string | undefined) => void,
): TarReader {
  const chunks = source[Symbol.asyncIterator]();
  let rest: Buffer = Buffer.alloc(0);
  let entry: TarEntry | undefined;

  /** At most so many bytes, and at least one; undefined at the end of the file. */
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
      if (part === undefined) throw new TarError("it ends too early");
      parts.push(part);
      left -= part.length;
    }
    return Buffer.concat(parts);
  }

  return {
    async next() {
      const header = await exactly(BLOCK_BYTES);
      if (isZero(header)) {
        if (!isZero(await exactly(BLOCK_BYTES))) throw new TarError("its end is not one");
        if ((await some(1)) !== undefined) throw new TarError("something follows its end");
        return undefined;
      }
      entry = parseTarHeader(header);
      see(header, entry.name);
      return entry;
    },
    async *bytes() {
      if (entry === undefined) return;
      const { name, size } = entry;
      entry = undefined;
      for (let left = size; left > 0; ) {
        const chunk = await some(left);
        if (chunk === undefined) throw new TarError("it ends too early");
        left -= chunk.length;
        see(chunk, name);
        yield chunk;
      }
      const padding = await exactly(tarPadding(size).length);
      if (!isZero(padding)) throw new TarError(`something stands behind ${name}`);
      see(padding, name);
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
  // The one header that the writer would have made of this: whatever else was changed shows.
  if (Number.isSafeInteger(size) && Number.isSafeInteger(modified)) {
    if (renderTarHeader({ name, size }, new Date(modified * 1000)).equals(header)) return { name, size };
  }
  throw new TarError("there is something else where a file's header should be");
}

/** The sum of a header's bytes, its own field counted as spaces. */
function sumOf(header: Buffer): number {
  let sum = 8 * 0x20;
  for (const [index, byte] of header.entries()) if (index < 148 || index >= 156) sum += byte;
  return sum;
}

function isZero(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0);
}

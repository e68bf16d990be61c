/**
 * The part of tar that a backup needs: plain files with mode 0600, one after another.
 *
 * We use no library, for two reasons: our reader must hash every byte, including headers and padding, and it must
 * refuse everything that our writer does not write. A library reads all dialects of tar and skips unknown parts.
 */

import { createByteReader } from "../../base/byte_reader.ts";
import * as header from "../../base/tar_header.ts";
import { damaged } from "./_errors.ts";

export { TAR_END, tarPadding } from "../../base/tar_header.ts";

const MODE = 0o600;

export interface BackupEntry {
  readonly name: string;
  readonly size: number;
}

/** Returns the header of an entry. The name may have at most 100 bytes. */
export function renderTarHeader({ name, size }: BackupEntry, modifiedAt: Date): Buffer {
  return header.renderTarHeader({ path: name, sizeBytes: size, modifiedAt }, MODE);
}

export type TarReader = ReturnType<typeof readTar>;

/** Reads a tar. `onBytes` gets every byte of it in order, with the name of the entry that contains the byte. */
export function readTar(
  source: AsyncIterable<Buffer>,
  onBytes: (bytes: Buffer, entry: string | undefined) => void,
) {
  const { some, exactly: take } = createByteReader(source);
  let entry: BackupEntry | undefined;

  async function exactly(count: number): Promise<Buffer> {
    const taken = await take(count);
    if (taken === undefined) throw damaged("it ends too early");
    return taken;
  }

  return {
    /** Reads the next entry's header; undefined at the end. Throws if bytes follow the end. */
    async next(): Promise<BackupEntry | undefined> {
      const block = await exactly(header.TAR_BLOCK_BYTES);
      if (header.isZero(block)) {
        if (!header.isZero(await exactly(header.TAR_BLOCK_BYTES)))
          throw damaged("it has no valid end marker");
        if ((await some(1)) !== undefined) throw damaged("there are bytes after its end marker");
        return undefined;
      }
      const found = header.parseTarHeader(block, MODE);
      if (found === undefined) throw damaged("the header of a file is not valid");
      entry = { name: found.path, size: found.sizeBytes };
      onBytes(block, entry.name);
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
      const padding = await exactly(header.tarPadding(size).length);
      if (!header.isZero(padding)) throw damaged(`the padding after ${name} is not zero`);
      onBytes(padding, name);
    },
  };
}

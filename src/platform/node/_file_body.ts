import { close, createReadStream, open, openSync, read } from "node:fs";
import { Readable } from "node:stream";
import type { ReadableStream as NodeReadableStream } from "node:stream/web";
import type { FilePart } from "../mod.ts";

const CHUNK_BYTES = 256 * 1024;

/**
 * A stream: on Node 24 a file's `Blob` is sliced at places modulo 4 GiB, which gives wrong bytes.
 *
 * The file is open when this returns, so that it is the one that was looked at, whatever takes its place.
 */
export function fileBody({ path, first, end }: FilePart): Blob | ReadableStream<Uint8Array> {
  // The last byte is named, and there is none.
  if (first === end) return new Blob([]);
  const stream = createReadStream(path, {
    fd: openSync(path, "r"),
    start: first,
    end: end - 1,
    highWaterMark: CHUNK_BYTES,
    fs: { open, close, read: readUntilError },
  });
  const strategy = { highWaterMark: 1, size: () => 1 };
  const web: NodeReadableStream = Readable.toWeb(stream, { strategy });
  return web as unknown as ReadableStream<Uint8Array>;
}

/**
 * Takes what cannot be read for the end: the answer is shorter than its length then and is cut off, where of
 * an error the adapter would write a line of its own between those of the log.
 */
function readUntilError(
  ...[fd, buffer, offset, length, position, done]: [
    fd: number,
    buffer: Buffer,
    offset: number,
    length: number,
    position: number,
    done: (error: null, bytesRead: number, buffer: Buffer) => void,
  ]
): void {
  read(fd, buffer, offset, length, position, (error, bytesRead) =>
    done(null, error === null ? bytesRead : 0, buffer),
  );
}

import { close, createReadStream, open, openSync, read } from "node:fs";
import { Readable } from "node:stream";
import type { ReadableStream as NodeReadableStream } from "node:stream/web";
import type { FilePart } from "../mod.ts";

const CHUNK_BYTES = 256 * 1024;

/**
 * Returns a stream, not a `Blob`: Node 24 slices a file's `Blob` at offsets modulo 4 GiB, which gives wrong bytes.
 *
 * The file is open when this returns, so the body is the file that the caller checked, even if another file takes its
 * name.
 */
export function fileBody({ path, first, end }: FilePart): Blob | ReadableStream<Uint8Array> {
  // `end` of a stream is the last byte, which an empty part does not have.
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
 * Reads, and reports a failed read as the end of the file. The answer is then shorter than its `Content-Length`, and
 * its connection is cut. For an error the adapter would write a line of its own between the lines of our log.
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

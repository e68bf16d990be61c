import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
import type { ReadableStream as NodeReadableStream } from "node:stream/web";
import type { FilePart } from "../mod.ts";

const CHUNK_BYTES = 256 * 1024;

/** A stream: on Node 24 a file's `Blob` is sliced at places modulo 4 GiB, which gives wrong bytes. */
export function fileBody({ path, first, end }: FilePart): Blob | ReadableStream<Uint8Array> {
  // The last byte is named, and there is none.
  if (first === end) return new Blob([]);
  const stream = createReadStream(path, { start: first, end: end - 1, highWaterMark: CHUNK_BYTES });
  const strategy = { highWaterMark: 1, size: () => 1 };
  const web: NodeReadableStream = Readable.toWeb(stream, { strategy });
  return web as unknown as ReadableStream<Uint8Array>;
}

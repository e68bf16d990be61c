import type { FilePart } from "../mod.ts";

/**
 * Returns a slice of a `Bun.file`, not a stream: Bun 1.4.5 drops the `Content-Length` of a stream. Bun does not change
 * a 206 with a slice. Bun applies the request's `Range` itself only for a whole file, and only without an `If-Range`.
 */
export function fileBody({ path, first, end }: FilePart): Blob {
  return Bun.file(path).slice(first, end);
}

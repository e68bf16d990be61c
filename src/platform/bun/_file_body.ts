import type { FilePart } from "../mod.ts";

/**
 * Returns a slice of a `Bun.file`, not a stream: Bun 1.4.5 drops the `Content-Length` of a stream. Bun does not change
 * a 206 with a slice. Only for a whole file does Bun apply the request's `Range` itself, unless the request has an
 * `If-Range`.
 */
export function fileBody({ path, first, end }: FilePart): Blob {
  return Bun.file(path).slice(first, end);
}

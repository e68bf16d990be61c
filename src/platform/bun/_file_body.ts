import type { FilePart } from "../mod.ts";

/**
 * A slice of a `Bun.file`: of a stream, Bun 1.4.5 drops the `Content-Length`. It leaves a 206 with a slice as
 * it is; only for a whole file it looks at the request's `Range` by itself, unless there is an `If-Range`.
 */
export function fileBody({ path, first, end }: FilePart): Blob {
  return Bun.file(path).slice(first, end);
}

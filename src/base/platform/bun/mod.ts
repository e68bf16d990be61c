/** Implements the platform on Bun: in an executable compiled by `bun build --compile`, or from source. */
import type { Platform } from "../mod.ts";
import { lockOpenFile, tryLock } from "./_file_lock.ts";
import { listen } from "./_listen.ts";
import { monotonicUsec, sendDatagram } from "./_notify.ts";
import { findPostgresArchive, findPostgresInside } from "./_postgres_archive.ts";

export const bunPlatform: Platform = {
  name: "bun",
  // A slice of a `Bun.file`, not a stream: Bun 1.4.5 drops the `Content-Length` of a stream. Bun does not change a 206 with
  // a slice. Bun applies the request's `Range` itself only for a whole file, and only without an `If-Range`.
  fileBody: ({ path, first, end }) => Bun.file(path).slice(first, end),
  sha256: (text, into) => void Bun.SHA256.hash(text, into),
  listen,
  tryLock,
  lockOpenFile,
  sendDatagram,
  monotonicUsec,
  collectGarbage: () => void Bun.gc(false),
  postgresArchive: findPostgresArchive,
  postgresInside: findPostgresInside,
};

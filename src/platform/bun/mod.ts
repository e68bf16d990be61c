/** Implements the platform on Bun: in an executable compiled by `bun build --compile`, or from source. */
import type { Platform } from "../mod.ts";
import { fileBody } from "./_file_body.ts";
import { lockOpenFile, tryLock } from "./_file_lock.ts";
import { listen } from "./_listen.ts";
import { monotonicUsec, sendDatagram } from "./_notify.ts";
import { findPostgresArchive } from "./_postgres_archive.ts";

export const bunPlatform: Platform = {
  name: "bun",
  fileBody,
  sha256: (text, into) => void Bun.SHA256.hash(text, into),
  listen,
  tryLock,
  lockOpenFile,
  sendDatagram,
  monotonicUsec,
  collectGarbage: () => void Bun.gc(false),
  postgresArchive: findPostgresArchive,
};

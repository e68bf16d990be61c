/** Claviger on Bun: as an executable compiled by `bun build --compile`, or from source. */
import type { Platform } from "../mod.ts";
import { tryLock } from "./_file_lock.ts";
import { listen } from "./_listen.ts";
import { findPostgresArchive } from "./_postgres_archive.ts";

export const bunPlatform: Platform = { name: "bun", listen, tryLock, postgresArchive: findPostgresArchive };

/**
 * Finds the archive that `pack_postgres.ts` makes. In an executable it is an embedded file; when run from source, it
 * is packed on first use. The file's name contains the label, so that a start finds the unpacked folder without
 * hashing all of it.
 */
import { chmodSync, existsSync, readdirSync, statfsSync } from "node:fs";
import { join } from "node:path";
import type { PostgresOrigin } from "../../version.ts";
import type { PostgresArchive, PostgresInside } from "../mod.ts";
import { demandGlibc } from "./_glibc.ts";
import { findPostgres, packPostgres, parseArchiveLabel } from "./pack_postgres.ts";

/** Inserted by the build; absent when the program runs from source. */
declare const CLAVIGER_POSTGRES_ORIGIN: PostgresOrigin;

/** Finds the PostgreSQL inside the executable; from source, packs the one that was built or installed. */
export async function findPostgresArchive(): Promise<PostgresArchive | undefined> {
  if (Bun.isStandaloneExecutable) {
    const file = findEmbedded();
    if (file === undefined) return undefined;
    demandGlibc();
    return toArchive(nameOf(file), file);
  }
  // A low level packs in half a second; the archive stays on this machine, so its size does not matter.
  const path = await packPostgres({ level: 3 });
  return path === undefined ? undefined : toArchive(path, Bun.file(path));
}

/** Tells which PostgreSQL {@linkcode findPostgresArchive} finds, without packing it. */
export function findPostgresInside(): PostgresInside | undefined {
  if (!Bun.isStandaloneExecutable) return findPostgres();
  const file = findEmbedded();
  const [version] = (file === undefined ? undefined : parseArchiveLabel(nameOf(file)))?.split("-") ?? [];
  return version === undefined ? undefined : { version, origin: CLAVIGER_POSTGRES_ORIGIN };
}

/** Embedded files have a name, although their type is Blob. */
function findEmbedded(): Blob | undefined {
  return Bun.embeddedFiles.find((blob) => parseArchiveLabel(nameOf(blob)) !== undefined);
}

function toArchive(name: string, file: Blob): PostgresArchive | undefined {
  const label = parseArchiveLabel(name);
  return label === undefined ? undefined : { label, unpack: (folder) => unpack(file, folder) };
}

async function unpack(file: Blob, folder: string): Promise<void> {
  const tar = await Bun.zstdDecompress(await file.bytes());
  // Checked here, because on a full disk Bun's error says only "ReadError".
  const { bavail, bsize } = statfsSync(folder);
  if (bavail * bsize < tar.length) {
    throw new Error(`No space left on device: ${Math.ceil(tar.length / 1e6)} MB are needed`);
  }
  await new Bun.Archive(tar).extract(folder);
  // Independent of the umask: the cluster may run as another user, who must be able to read all files.
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const executable = entry.isDirectory() || entry.parentPath === join(folder, "bin");
    chmodSync(join(entry.parentPath, entry.name), executable ? 0o755 : 0o644);
  }
  chmodSync(folder, 0o755);
  if (!existsSync(join(folder, "bin/postgres"))) throw new Error("the archive holds no PostgreSQL");
}

function nameOf(blob: Blob): string {
  return "name" in blob && typeof blob.name === "string" ? blob.name : "";
}

/**
 * Finds the archive that `pack_postgres.ts` makes: among the files embedded in the executable, or, run
 * from source, packed on first use. The name of the file carries its label, so that no start has to
 * hash 15 MB to learn where it was unpacked before.
 */
import { chmodSync, existsSync, readdirSync, statfsSync } from "node:fs";
import { join } from "node:path";
import type { PostgresArchive } from "../mod.ts";
import { demandGlibc } from "./_glibc.ts";
import { packPostgres, parseArchiveLabel } from "./pack_postgres.ts";

export async function findPostgresArchive(): Promise<PostgresArchive | undefined> {
  if (Bun.isStandaloneExecutable) {
    // Embedded files are named, although the type says plain Blob.
    const file = Bun.embeddedFiles.find((blob) => parseArchiveLabel(nameOf(blob)) !== undefined);
    if (file === undefined) return undefined;
    demandGlibc();
    return toArchive(nameOf(file), file);
  }
  // A low level: packed in half a second, and only ever read on this machine.
  const path = await packPostgres({ level: 3 });
  return path === undefined ? undefined : toArchive(path, Bun.file(path));
}

function toArchive(name: string, file: Blob): PostgresArchive | undefined {
  const label = parseArchiveLabel(name);
  return label === undefined ? undefined : { label, unpack: (folder) => unpack(file, folder) };
}

async function unpack(file: Blob, folder: string): Promise<void> {
  const tar = await Bun.zstdDecompress(await file.bytes());
  // Bun says no more than "ReadError" when the disk is full.
  const { bavail, bsize } = statfsSync(folder);
  if (bavail * bsize < tar.length) {
    throw new Error(`No space left on device: ${Math.ceil(tar.length / 1e6)} MB are needed`);
  }
  await new Bun.Archive(tar).extract(folder);
  // Whatever the umask: the cluster runs as another user, who must be able to read all of it.
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

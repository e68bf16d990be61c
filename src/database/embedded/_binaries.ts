/**
 * Unpacks PostgreSQL into a folder named for its version and digest. The folder appears whole or not at all. A power
 * cut may still empty files that were not yet synced to disk. So the folder counts as settled only with a marker file,
 * which is written after all other files were synced. The sync takes 0.2 s and runs in the background of the first
 * start.
 */
import { chmodSync, existsSync, lstatSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Log } from "../../base/log.ts";
import type { PostgresArchive } from "../../base/platform/mod.ts";
import { syncPath } from "../../base/sync_path.ts";
import { makeUnfinished } from "./_layout.ts";
import { explainError } from "./_server_log.ts";

export interface Binaries {
  /** The folder of `postgres` and `initdb`. */
  readonly bin: string;
  /** The major version, such as `18`. The cluster must have the same one. */
  readonly major: string;
  /** The folder into which they were unpacked; undefined for the operator's own programs. */
  readonly folder?: string;
}

/**
 * Unpacks the archive below `parent`, unless an earlier start did. If servers of other data folders may run from there,
 * the folder is `shared`: an existing one is never replaced, settled or not. Any other one is replaced if users besides its
 * owner could change the programs, as after `fsGroup` of Kubernetes.
 */
export async function unpackBinaries(
  archive: PostgresArchive,
  { parent, shared, log }: { readonly parent: string; readonly shared: boolean; readonly log: Log },
): Promise<Binaries> {
  const folder = join(parent, `postgres-${archive.label}`);
  const binaries = { folder, bin: join(folder, "bin"), major: archive.label.split(".")[0] ?? "" };
  const isThere = () => existsSync(shared ? folder : join(folder, MARKER));
  const wasOpen = !shared && isThere() && isOpenToOthers(folder);
  if (isThere() && !wasOpen) return binaries;

  let unfinished: string | undefined;
  try {
    unfinished = makeUnfinished(folder);
    await archive.unpack(unfinished);
    if (!shared) rmSync(folder, { recursive: true, force: true });
    renameSync(unfinished, folder);
  } catch (error) {
    if (unfinished !== undefined) rmSync(unfinished, { recursive: true, force: true });
    // Another process was faster.
    if (shared && isThere()) return binaries;
    throw new Error(`Cannot unpack PostgreSQL into ${folder}: ${explainError(error)}`, { cause: error });
  }
  if (wasOpen)
    log.warn("The programs of PostgreSQL were unpacked anew: other users could change them", { folder });
  return binaries;
}

/** Tells whether users besides the owner may write to an unpacked folder, or to anything in it. */
function isOpenToOthers(folder: string): boolean {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  const paths = entries.map((entry) => join(entry.parentPath, entry.name));
  return [folder, ...paths].some((path) => {
    const found = lstatSync(path);
    return !found.isSymbolicLink() && (found.mode & 0o022) !== 0;
  });
}

/** Returns the version of the PostgreSQL in an archive, such as `18.4`. */
export function versionOf({ label }: PostgresArchive): string {
  return label.split("-")[0] ?? "";
}

/** Syncs the unpacked files to disk and writes the marker, so that the next start can use them. */
export async function settleBinaries(folder: string): Promise<void> {
  if (existsSync(join(folder, MARKER))) return;
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  for (const entry of entries) await syncPath(join(entry.parentPath, entry.name));
  // Whatever the umask is: a file that others may write would make the next start unpack again.
  writeFileSync(join(folder, MARKER), "");
  chmodSync(join(folder, MARKER), 0o644);
  await syncPath(join(folder, MARKER));
  await syncPath(folder);
}

/** Removes the folders that other versions unpacked, and unfinished folders. */
export function removeOtherBinaries(dataDir: string, current: string): void {
  for (const name of readdirSync(dataDir)) {
    const isOld = /^postgres-\d/.test(name) && name !== basename(current);
    if (isOld) rmSync(join(dataDir, name), { recursive: true, force: true });
  }
}

const MARKER = "settled";

/** The backups in a folder, as far as their heads tell: whose they are, how old, and how many keys they have. */
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { reasonOf } from "../../base/system_error.ts";
import type { Head } from "./format.ts";
import { readHead, readKeyCount } from "./read_backup.ts";

export interface FoundBackup {
  /** The name of its file in the folder. */
  readonly name: string;
  readonly head: Head;
  readonly bytes: number;
}

/** An earlier backup up to this size is read for the number of its keys. */
const COUNTED_BYTES = 16 * 1024 * 1024;

/**
 * Lists the backups in a folder, the oldest first, also those that an operator renamed. `unreadable` are files with the
 * ending of a backup that cannot be read as one. Throws the errors of the file system.
 */
export async function listBackups(folder: string) {
  const found: FoundBackup[] = [];
  const unreadable: { readonly name: string; readonly why: string }[] = [];
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const { name } = entry;
    if (!entry.isFile() || !name.endsWith(".tar.zst")) continue;
    const path = join(folder, name);
    try {
      found.push({ name, head: await readHead(path), bytes: statSync(path).size });
    } catch (error) {
      unreadable.push({ name, why: reasonOf(error) });
    }
  }
  const order = ({ name, head }: FoundBackup) => `${head.made_at} ${name}`;
  found.sort((one, other) => (order(one) < order(other) ? -1 : 1));
  return { found, unreadable };
}

/** Returns a file of which nobody can tell whose backup it is, if no backup in the folder can be read. */
export function findUnknown({ found, unreadable }: Awaited<ReturnType<typeof listBackups>>) {
  return found.length === 0 ? unreadable[0] : undefined;
}

/**
 * Returns how many keys a backup has. An earlier format does not say so in its head, and its rows must be read: undefined
 * if it is large, or damaged.
 */
export async function countSavedKeys(
  folder: string,
  { name, head, bytes }: FoundBackup,
): Promise<number | undefined> {
  if (head.keys !== undefined || bytes > COUNTED_BYTES) return head.keys;
  return await readKeyCount(join(folder, name)).catch(() => undefined);
}

/** Tells whether a backup has every model file that its database named, as far as it is known. */
export function isWhole({ missing_models = [] }: Head): boolean {
  return missing_models.length === 0;
}

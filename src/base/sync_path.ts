import { open } from "node:fs/promises";

/** Syncs a file, or the names in a folder, to disk: a file's name is on disk only after its folder is synced. */
export async function syncPath(path: string): Promise<void> {
  const handle = await open(path, "r");
  await handle.sync().finally(() => handle.close());
}

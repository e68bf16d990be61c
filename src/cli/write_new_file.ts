import { randomBytes } from "node:crypto";
import { open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { syncPath } from "../base/sync_path.ts";

/**
 * Writes a file of mode 0600 that is complete or not there: under another name in the same folder, synced, and then renamed.
 * A rename works on every file system, such as that of a USB stick, but also replaces: callers look before whether the name is
 * free.
 */
export async function writeNewFile(path: string, chunks: AsyncIterable<Uint8Array>): Promise<void> {
  const unfinished = `${path}.unfinished-${randomBytes(4).toString("hex")}`;
  try {
    const file = await open(unfinished, "wx", 0o600);
    try {
      for await (const chunk of chunks) await file.writeFile(chunk);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(unfinished, path);
    await syncPath(dirname(path));
  } finally {
    await rm(unfinished, { force: true });
  }
}

import { randomBytes } from "node:crypto";
import { accessSync, constants } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { syncPath } from "../base/sync_path.ts";
import { type Reasons, reasonOf } from "../base/system_error.ts";
import { CommandRefused } from "./run.ts";

/** Refuses a folder that this user cannot write, before something is done whose file would be lost. */
export function demandWritable(folder: string): void {
  try {
    accessSync(folder, constants.W_OK);
  } catch (error) {
    throw new CommandRefused(`Cannot write into ${folder}: ${reasonOf(error, WRITE_REASONS)}`);
  }
}

const WRITE_REASONS: Reasons = {
  ENOENT: "there is no such folder",
  ENOTDIR: "there is no such folder",
  EACCES: "this user may not write there",
  EROFS: "nothing can be written there",
};

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

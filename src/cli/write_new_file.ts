import { randomBytes } from "node:crypto";
import { accessSync, constants, lstatSync } from "node:fs";
import { link, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { syncPath } from "../base/sync_path.ts";
import { codeOf, type Reasons } from "../base/system_error.ts";
import { renderFailure } from "./failures.ts";
import { CommandRefused } from "./run.ts";

/**
 * Refuses a name that is taken, and a folder that this user cannot write, before something is done whose file would be lost.
 * `what` is the work that needs the file, `shown` the path as the operator gave it.
 */
export function demandNewFile(
  path: string,
  { what, shown = path }: { readonly what: string; readonly shown?: string },
): void {
  const folder = dirname(path);
  let taken: boolean;
  try {
    // With the slash a file is no folder.
    accessSync(`${folder}/`, constants.W_OK | constants.X_OK);
    taken = isTaken(path);
  } catch (error) {
    throw new CommandRefused(`Cannot write into ${folder}: ${renderWriteFailure(error)}`);
  }
  if (taken)
    throw new CommandRefused(`Cannot ${what}: ${shown} exists already; move it, or choose another name`);
}

/** Tells whether something has this name: also a link that leads nowhere. */
function isTaken(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

/** Says why a file cannot be written. */
export function renderWriteFailure(error: unknown): string {
  return WRITE_REASONS[codeOf(error) ?? ""] ?? renderFailure(error);
}

const WRITE_REASONS: Reasons = {
  ENOENT: "there is no such folder",
  ENOTDIR: "there is no such folder",
  EACCES: "this user may not write there",
  EROFS: "nothing can be written there",
  ENOSPC: "the disk is full",
  EDQUOT: "the quota of the disk is used up",
  EEXIST: "something else has got this name meanwhile, and stays as it is",
};

/** Links are unknown to some file systems, such as that of a USB stick (EPERM), or forbidden there. */
const NO_LINKS: readonly string[] = ["EPERM", "EACCES", "ENOSYS", "ENOTSUP", "EOPNOTSUPP", "EMLINK"];

/**
 * Writes a file of mode 0600 that is complete or not there: under another name in the same folder, synced, and then linked to its
 * own name. A link replaces nothing: if something has the name meanwhile, the error has the code EEXIST. Where the file system has
 * no links, the file is renamed right after another look.
 */
export async function writeNewFile(
  path: string,
  chunks: AsyncIterable<Uint8Array>,
  { makeLink = link }: { readonly makeLink?: typeof link } = {},
): Promise<void> {
  const unfinished = `${path}.unfinished-${randomBytes(4).toString("hex")}`;
  try {
    const file = await open(unfinished, "wx", 0o600);
    try {
      for await (const chunk of chunks) await file.writeFile(chunk);
      await file.sync();
    } finally {
      await file.close();
    }
    await makeLink(unfinished, path).catch(async (error: unknown) => {
      if (!NO_LINKS.includes(codeOf(error) ?? "")) throw error;
      if (isTaken(path)) throw Object.assign(new Error(`${path} exists`), { code: "EEXIST" });
      await rename(unfinished, path);
    });
  } finally {
    await rm(unfinished, { force: true });
  }
  await syncPath(dirname(path));
}

/** Reads `postmaster.pid`, in which a PostgreSQL server writes its process id and, on line 8, its status. */
import { constants } from "node:fs";
import { join } from "node:path";
import { openRegularFile, readRegularFile } from "../../base/read_regular_file.ts";
import { hasCode } from "../../base/system_error.ts";

const LIMIT_BYTES = 64 * 1024;

/**
 * Reads the file; undefined if there is no such file or it names no process. The status is `starting`, `ready` (which
 * means that it accepts connections) or `stopping`; empty at first.
 */
export function readPostmasterFile(cluster: string) {
  let lines: string[];
  try {
    lines = readRegularFile(pathIn(cluster), LIMIT_BYTES, constants.O_NOFOLLOW).split("\n");
  } catch {
    return undefined;
  }
  const pid = Number(lines[0]);
  return Number.isInteger(pid) && pid > 0 ? { pid, status: lines[7]?.trim() ?? "" } : undefined;
}

/** Throws if the path of the file leads to something that is not a file, or if this user may not read there. */
export function demandPostmasterFile(cluster: string): void {
  try {
    openRegularFile(pathIn(cluster), constants.O_NOFOLLOW).close();
  } catch (error) {
    if (!hasCode(error, "ENOENT")) throw error;
  }
}

function pathIn(cluster: string): string {
  return join(cluster, "postmaster.pid");
}

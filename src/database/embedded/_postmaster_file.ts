/** `postmaster.pid`, in which a PostgreSQL server says who it is and, on line 8, how far it is. */
import { constants } from "node:fs";
import { join } from "node:path";
import { openRegularFile, readRegularFile } from "../../read_regular_file.ts";
import { hasCode } from "../../system_error.ts";

const LIMIT_BYTES = 64 * 1024;

export interface PostmasterFile {
  readonly pid: number;
  /** `starting`, `ready` (which means that it accepts connections) or `stopping`; empty at first. */
  readonly status: string;
}

export function readPostmasterFile(cluster: string): PostmasterFile | undefined {
  let lines: string[];
  try {
    lines = readRegularFile(pathIn(cluster), LIMIT_BYTES, constants.O_NOFOLLOW).text.split("\n");
  } catch {
    return undefined;
  }
  const pid = Number(lines[0]);
  return Number.isInteger(pid) && pid > 0 ? { pid, status: lines[7]?.trim() ?? "" } : undefined;
}

/** Throws when something else stands at the path of the file, or when this user may not look there. */
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

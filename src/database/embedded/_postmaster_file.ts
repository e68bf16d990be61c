/** `postmaster.pid`, in which a PostgreSQL server says who it is and, on line 8, how far it is. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface PostmasterFile {
  readonly pid: number;
  /** `starting`, `ready` (which means that it accepts connections) or `stopping`; empty at first. */
  readonly status: string;
}

export function readPostmasterFile(cluster: string): PostmasterFile | undefined {
  let lines: string[];
  try {
    lines = readFileSync(join(cluster, "postmaster.pid"), "utf8").split("\n");
  } catch {
    return undefined;
  }
  const pid = Number(lines[0]);
  return Number.isInteger(pid) && pid > 0 ? { pid, status: lines[7]?.trim() ?? "" } : undefined;
}

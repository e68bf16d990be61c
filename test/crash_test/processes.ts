/** Reads from Linux the state of the processes under the crash test. */
import { readdirSync, readFileSync, readlinkSync, type Stats, statSync } from "node:fs";
import { basename } from "node:path";

export interface Resources {
  readonly descriptors: number;
  readonly residentMb: number;
}

/**
 * Returns the number of open descriptors, less those for `clients` connections, and the resident memory;
 * undefined if the process has ended.
 */
export function resourcesOf(pid: number, clients: number): Resources | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const kilobytes = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]);
    return { descriptors: readdirSync(`/proc/${pid}/fd`).length - clients, residentMb: kilobytes / 1024 };
  } catch {
    return undefined;
  }
}

/**
 * Lists every PostgreSQL process that works in that data folder, including those that other processes
 * started.
 */
export function listClusterProcesses(cluster: string): number[] {
  const folder = statSync(cluster, { throwIfNoEntry: false });
  if (folder === undefined) return [];
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.map(Number).filter((pid) => isOfCluster(pid, folder));
}

function isOfCluster(pid: number, folder: Stats): boolean {
  try {
    const { ino, dev } = statSync(`/proc/${pid}/cwd`);
    if (ino !== folder.ino || dev !== folder.dev) return false;
    // Dead processes whose parent has not collected them do not count.
    if (/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"))) return false;
    return basename(readlinkSync(`/proc/${pid}/exe`)).startsWith("postgres");
  } catch {
    return false;
  }
}

/**
 * Lists those of them whose parent is not one of them: the postmaster, and processes that a killed
 * postmaster left.
 */
export function listPostmasters(cluster: string): number[] {
  const pids = new Set(listClusterProcesses(cluster));
  return [...pids].filter((pid) => {
    try {
      const parent = /\) \S (\d+) /.exec(readFileSync(`/proc/${pid}/stat`, "utf8"))?.[1];
      return !pids.has(Number(parent));
    } catch {
      return false;
    }
  });
}

/** Sends a signal, unless the process has ended. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    const isGone = error instanceof Error && "code" in error && error.code === "ESRCH";
    if (!isGone) throw error;
  }
}

/**
 * Stops all of a PostgreSQL, as on a frozen machine; the postmaster first, so that it starts no more
 * processes.
 */
export function freeze(cluster: string): void {
  for (const pid of listPostmasters(cluster)) signal(pid, "SIGSTOP");
  for (const pid of listClusterProcesses(cluster)) signal(pid, "SIGSTOP");
}

export function thaw(cluster: string): void {
  for (const pid of listClusterProcesses(cluster)) signal(pid, "SIGCONT");
}

/**
 * Stops all PostgreSQL processes of one cluster: those of this service, those of a service that was killed, and those
 * that a killed postmaster left behind, which would prevent the next start ("pre-existing shared memory block is still
 * in use").
 *
 * The processes are found by their program or name and by their working folder, which is the folder of the cluster.
 * `postmaster.pid` only tells which of them is the postmaster. So it does no harm if the file has an old number that
 * another program has now.
 */
import { readdirSync, readFileSync, readlinkSync, rmSync, type Stats, statSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../../base/clock.ts";
import { hasCode } from "../../base/system_error.ts";
import { readPostmasterFile } from "./_postmaster_file.ts";

interface StopLeftoversOptions {
  /** PGDATA. The caller must hold the lock of the data folder. */
  readonly cluster: string;
  readonly clock: Clock;
  /** How long an orderly shutdown may take before it is cut short. */
  readonly graceMs: number;
}

/** Stops the processes and returns how many there were. Rejects if even SIGKILL does not end one of them. */
export async function stopLeftovers(options: StopLeftoversOptions): Promise<number> {
  const { cluster, clock } = options;
  const found = listClusterProcesses(cluster);
  const postmaster = found.find((pid) => pid === readPostmasterFile(cluster)?.pid);

  let left = found;
  // SIGINT is the fast shutdown: it ends sessions and writes all data to disk. SIGQUIT is the immediate shutdown: it
  // only ends, and the next start recovers.
  if (postmaster !== undefined) {
    signal(cluster, [postmaster], "SIGINT");
    await waitUntilGone(cluster, found, clock, options.graceMs);
    left = listClusterProcesses(cluster);
  }
  // More than once: a process that was forking when it was killed leaves a child behind.
  for (const name of ["SIGQUIT", "SIGKILL", "SIGKILL", "SIGKILL"] as const) {
    if (left.length === 0) break;
    signal(cluster, left, name);
    await waitUntilGone(cluster, left, clock, 2000);
    left = listClusterProcesses(cluster);
  }
  if (left.length > 0) {
    throw new Error(`Cannot stop PostgreSQL in ${cluster}: process ${left.join(", ")} does not end`);
  }
  // PostgreSQL would take a number that now belongs to another process for a running server.
  for (const name of ["postmaster.pid", ".s.PGSQL.5432", ".s.PGSQL.5432.lock"]) {
    rmSync(join(cluster, name), { force: true });
  }
  return found.length;
}

function listClusterProcesses(cluster: string): number[] {
  const folder = statSync(cluster, { throwIfNoEntry: false });
  if (folder === undefined) return [];
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => isClusterProcess(pid, folder));
}

/** False for a process that ended but was not yet reaped, and for processes that this user may not inspect. */
function isClusterProcess(pid: number, folder: Stats): boolean {
  try {
    const cwd = statSync(`/proc/${pid}/cwd`);
    if (cwd.ino !== folder.ino || cwd.dev !== folder.dev) return false;
    return isPostgres(pid);
  } catch {
    return false;
  }
}

/** Where the processor is emulated, the program of every process is the emulator, and only its name is PostgreSQL's. */
function isPostgres(pid: number): boolean {
  const program = programOf(pid);
  if (program === undefined || program.startsWith("postgres")) return true;
  return readFileSync(`/proc/${pid}/comm`, "utf8") === "postgres\n";
}

/**
 * Returns the name of the program; undefined for a killed process that still gives back its memory. Such a process
 * keeps its folder until the end, and until then the next server would find the shared memory in use.
 */
function programOf(pid: number): string | undefined {
  try {
    return basename(readlinkSync(`/proc/${pid}/exe`));
  } catch (error) {
    if (hasCode(error, "ENOENT")) return undefined;
    throw error;
  }
}

function signal(cluster: string, pids: readonly number[], name: NodeJS.Signals): void {
  const folder = statSync(cluster);
  for (const pid of pids) {
    // Checked again right before the signal: another process may have got the number.
    if (!isClusterProcess(pid, folder)) continue;
    try {
      process.kill(pid, name);
    } catch {
      // It has just ended.
    }
  }
}

async function waitUntilGone(cluster: string, pids: number[], clock: Clock, forMs: number): Promise<void> {
  const folder = statSync(cluster);
  const deadline = clock.monotonicMs() + forMs;
  while (pids.some((pid) => isClusterProcess(pid, folder)) && clock.monotonicMs() < deadline) await sleep(5);
}

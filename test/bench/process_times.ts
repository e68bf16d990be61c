/** Reads the CPU time and memory of processes, as Linux counts them. */
import { readdirSync, readFileSync } from "node:fs";

/** Ticks a second of `/proc/PID/stat`: the same in user space on every platform of Bun. */
const TICKS = 100;

interface Stat {
  readonly parent: number;
  /** The CPU time of the process itself, all threads. */
  readonly own: number;
  /** The CPU time of its children that have ended and were waited for. */
  readonly ended: number;
}

function readStat(pid: number | string): Stat | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    return undefined;
  }
  // The second field is a name in brackets that may contain any character.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const field = (number: number) => Number(fields[number - 3]);
  return { parent: field(4), own: field(14) + field(15), ended: field(16) + field(17) };
}

/** Returns the seconds of CPU that a process has used; NaN if it has ended. */
export function cpuSecondsOf(pid: number): number {
  return (readStat(pid)?.own ?? Number.NaN) / TICKS;
}

/** Returns the seconds of CPU of a process and all its descendants, including those that have ended. */
export function cpuSecondsOfTree(root: number): number {
  const stats = readAll();
  const ticks = treeOf(root, stats).map((pid) => {
    const { own, ended } = stats.get(pid) ?? { own: Number.NaN, ended: Number.NaN };
    return own + ended;
  });
  return ticks.reduce((sum, value) => sum + value, 0) / TICKS;
}

/** Returns the seconds for which all cores together were busy, or were kept from running by the host. */
export function busySeconds(): number {
  const [line = ""] = readFileSync("/proc/stat", "utf8").split("\n", 1);
  const [, user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = line
    .split(/\s+/)
    .map(Number);
  return (user + nice + system + irq + softirq + steal) / TICKS;
}

/** Returns a process and all its descendants. */
export function processTree(root: number): number[] {
  return treeOf(root, readAll());
}

function treeOf(root: number, stats: ReadonlyMap<number, Stat>): number[] {
  const children = [...stats].filter(([, { parent }]) => parent === root);
  return [root, ...children.flatMap(([pid]) => treeOf(pid, stats))];
}

function readAll(): Map<number, Stat> {
  const stats = new Map<number, Stat>();
  for (const name of readdirSync("/proc")) {
    const stat = /^\d+$/.test(name) ? readStat(name) : undefined;
    if (stat !== undefined) stats.set(Number(name), stat);
  }
  return stats;
}

/** The most that a service may hold in memory, without its PostgreSQL, as the design promises it. */
export const MOST_RESIDENT_MB = 165;

/** Returns the resident memory in bytes; NaN if the process has ended. */
export function residentBytesOf(pid: number): number {
  return statusBytesOf(pid, "VmRSS");
}

/**
 * Returns the resident memory of mapped files, such as the executable, which the system can drop and read
 * again.
 */
export function residentFileBytesOf(pid: number): number {
  return statusBytesOf(pid, "RssFile");
}

function statusBytesOf(pid: number, field: string): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    return Number(new RegExp(`^${field}:\\s*(\\d+) kB$`, "m").exec(status)?.[1]) * 1024;
  } catch {
    return Number.NaN;
  }
}

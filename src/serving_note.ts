/**
 * Where a running service listens, left in the data folder as the file `serving`: flags of `serve` are known
 * to nobody else, and `doctor` looks for the service where it really is.
 *
 * A service that was killed leaves its note behind. So it names the process with the time of its start, which
 * no other process of that number has; a note of one that has ended counts as none.
 */
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface ServingAt {
  readonly host: string;
  readonly port: number;
  readonly isSecure: boolean;
}

interface Note extends ServingAt {
  readonly pid: number;
  readonly startedAt: string;
}

export interface ServingNote {
  remove(): void;
}

/**
 * Leaves a note that this process serves there; gives what takes it back. Where there is no data folder, as
 * beside an external database, there is nobody to read it, and none is left.
 */
export function leaveServingNote(dataDir: string, at: ServingAt): ServingNote {
  const path = pathIn(dataDir);
  if (!existsSync(dataDir)) return { remove: () => {} };
  const note: Note = { ...at, pid: process.pid, startedAt: startOf(process.pid) ?? "" };
  const draft = `${path}.${process.pid}`;
  // Whole or not at all, in the place of what another user may have left.
  writeFileSync(draft, `${JSON.stringify(note)}\n`, { mode: 0o644 });
  renameSync(draft, path);
  return {
    remove() {
      // A second service on the same folder has its own there by now.
      if (readNote(path)?.pid === process.pid) rmSync(path, { force: true });
    },
  };
}

/** Where the service of a data folder listens; undefined where none runs that left a note. */
export function findServing(dataDir: string): ServingAt | undefined {
  const note = readNote(pathIn(dataDir));
  return note !== undefined && startOf(note.pid) === note.startedAt ? note : undefined;
}

function pathIn(dataDir: string): string {
  return join(dataDir, "serving");
}

function readNote(path: string): Note | undefined {
  try {
    const { host, port, isSecure, pid, startedAt } = JSON.parse(readFileSync(path, "utf8"));
    if (typeof host !== "string" || !Number.isInteger(port) || !Number.isInteger(pid)) return undefined;
    return { host, port, isSecure: isSecure === true, pid, startedAt: String(startedAt) };
  } catch {
    return undefined;
  }
}

/** When a process began, in the kernel's ticks; undefined for one that is not there. Source: proc(5). */
function startOf(pid: number): string | undefined {
  try {
    // The name in parentheses may hold anything; what follows it are numbers, of which this is the 20th.
    return readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /s, "")
      .split(" ")[19];
  } catch {
    return undefined;
  }
}

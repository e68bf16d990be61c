/**
 * Where a running service listens and which files it was given, left in the data folder as the file `serving`:
 * flags of `serve` and what a unit sets are known to nobody else, and `doctor` looks at what is really in use.
 *
 * A service that was killed leaves its note behind. So it names the process with the time of its start, which
 * no other process of that number has; a note of one that has ended counts as none.
 */
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import type { TlsFiles } from "./tls.ts";

export interface ServingAt {
  readonly host: string;
  readonly port: number;
  /** What it serves https with. */
  readonly tls?: TlsFiles | undefined;
  /** The folder of the credentials that systemd handed it. */
  readonly credentials?: string | undefined;
}

interface Note extends ServingAt {
  readonly pid: number;
  readonly startedAt: string;
}

const note = v.object({
  host: v.string(),
  port: v.pipe(v.number(), v.integer()),
  tls: v.optional(v.object({ certFile: v.string(), keyFile: v.string() })),
  credentials: v.optional(v.string()),
  pid: v.pipe(v.number(), v.integer()),
  startedAt: v.string(),
});

export interface ServingNote {
  remove(): void;
}

/**
 * Leaves a note that this process serves there; gives what takes it back. Where there is no data folder, as
 * beside an external database without model files, none is left.
 */
export function leaveServingNote(dataDir: string, at: ServingAt): ServingNote {
  const path = pathIn(dataDir);
  if (!existsSync(dataDir)) return { remove: () => {} };
  const mine: Note = { ...at, pid: process.pid, startedAt: startOf(process.pid) ?? "" };
  const draft = `${path}.${process.pid}`;
  // Whole or not at all, in the place of what another user may have left.
  writeFileSync(draft, `${JSON.stringify(mine)}\n`, { mode: 0o644 });
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
  const left = readNote(pathIn(dataDir));
  return left !== undefined && startOf(left.pid) === left.startedAt ? left : undefined;
}

function pathIn(dataDir: string): string {
  return join(dataDir, "serving");
}

function readNote(path: string): Note | undefined {
  try {
    return v.parse(note, JSON.parse(readFileSync(path, "utf8")));
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

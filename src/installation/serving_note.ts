/**
 * Where a running service listens and which files it was given, left in the data folder as the file `serving`:
 * flags of `serve` and what a unit sets are known to nobody else, and `doctor` looks at what is really in use.
 *
 * A service that was killed leaves its note behind. So it names the process with the time of its start, which
 * no other process of that number has; a note of one that has ended counts as none.
 *
 * The data folder is the service's, and `doctor` is run by root: a service that was broken into may write what
 * it likes here. So a note speaks for a process of the user alone to whom it belongs, and leads root to no
 * folder of credentials but the one that systemd made for that process's unit.
 */
import { constants, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import * as v from "valibot";
import { readRegularFile } from "../read_regular_file.ts";
import type { TlsFiles } from "../tls/mod.ts";

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

const NOTE_LIMIT_BYTES = 16 * 1024;
/** Where systemd puts them, and root alone may put anything. */
const CREDENTIALS_FOLDER = "/run/credentials/";

const note = v.object({
  host: v.string(),
  port: v.pipe(v.number(), v.integer()),
  tls: v.optional(
    v.object({ certFile: v.string(), keyFile: v.string(), isCopy: v.optional(v.literal(true)) }),
  ),
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
  rmSync(draft, { force: true });
  writeFileSync(draft, `${JSON.stringify(mine)}\n`, { mode: 0o644, flag: "wx" });
  renameSync(draft, path);
  return {
    remove() {
      // A second service on the same folder has its own there by now.
      if (readNote(path)?.pid === process.pid) rmSync(path, { force: true });
    },
  };
}

/**
 * Where the service of a data folder listens; undefined where none runs that left a note. `of` is whose note alone
 * will do.
 */
export function findServing(dataDir: string, of?: number): ServingAt | undefined {
  const left = readNote(pathIn(dataDir));
  if (left === undefined || left.uid !== (of ?? left.uid)) return undefined;
  const { pid, startedAt, uid, credentials, ...at } = left;
  const unit = unitOf(pid);
  if (startOf(pid) !== startedAt || userOf(pid) !== uid) return undefined;
  return { ...at, credentials: credentials && believedFolder(credentials, { uid, unit }) };
}

function pathIn(dataDir: string): string {
  return join(dataDir, "serving");
}

function readNote(path: string): (Note & { readonly uid: number }) | undefined {
  try {
    const { text, uid } = readRegularFile(path, NOTE_LIMIT_BYTES, constants.O_NOFOLLOW);
    return { ...v.parse(note, JSON.parse(text)), uid };
  } catch {
    return undefined;
  }
}

/** The folder, where this process may look into it on the word of that user; undefined otherwise. */
function believedFolder(
  folder: string,
  { uid, unit }: { readonly uid: number; readonly unit: string | undefined },
): string | undefined {
  // Root, and whoever runs this, could look there without a note.
  if (uid === 0 || uid === process.geteuid?.()) return folder;
  return unit !== undefined && resolve(folder) === join(CREDENTIALS_FOLDER, unit) ? folder : undefined;
}

function unitOf(pid: number): string | undefined {
  try {
    return parseUnitName(readFileSync(`/proc/${pid}/cgroup`, "utf8"));
  } catch {
    return undefined;
  }
}

/**
 * The unit of systemd's own that a process runs in, by `/proc/PID/cgroup`; undefined for another process. Below
 * slices alone: whoever has a manager of his own, or a service that makes groups, names those below as he likes.
 */
export function parseUnitName(cgroup: string): string | undefined {
  return /^(?:0:|\d+:name=systemd):(?:\/[^/\n]+\.slice)+\/([^/\n]+\.service)$/m.exec(cgroup)?.[1];
}

/** The user as whom a process runs; undefined for one that is not there. Source: proc(5). */
function userOf(pid: number): number | undefined {
  try {
    const [, uid] = /^Uid:\t\d+\t(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
    return uid === undefined ? undefined : Number(uid);
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

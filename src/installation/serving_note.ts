/**
 * The serving note: the file `serving` in the data folder. It says where a running service listens and which files
 * it uses. Only the service knows its flags and the settings of its unit, and `doctor` examines what is in use.
 *
 * A killed service leaves its note behind. So the note has the process number and the start time of the process,
 * which no later process with that number shares. A note of a process that has ended is ignored.
 *
 * The data folder belongs to the service, and root runs `doctor`: an attacker who took over the service can write
 * any note. So a note is believed only about a process of the note's owner, and it leads root to no folder of
 * credentials except the one that systemd made for that process's unit.
 */
import { constants, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import * as v from "valibot";
import { readRegularFile } from "../read_regular_file.ts";
import type { TlsFiles } from "../tls/mod.ts";

export interface ServingAt {
  readonly host: string;
  readonly port: number;
  /** The certificate and key of its https. */
  readonly tls?: TlsFiles | undefined;
  /** The listener for operators, if there is one. */
  readonly admin?: { readonly host: string; readonly port: number } | undefined;
  /** The folder of the credentials that systemd gave to the service. */
  readonly credentials?: string | undefined;
}

interface Note extends ServingAt {
  readonly pid: number;
  readonly startedAt: string;
}

const NOTE_LIMIT_BYTES = 16 * 1024;
/** The folder where systemd puts credentials; only root can write there. */
const CREDENTIALS_FOLDER = "/run/credentials/";

const note = v.object({
  host: v.string(),
  port: v.pipe(v.number(), v.integer()),
  tls: v.optional(
    v.object({ certFile: v.string(), keyFile: v.string(), isCopy: v.optional(v.literal(true)) }),
  ),
  admin: v.optional(v.object({ host: v.string(), port: v.pipe(v.number(), v.integer()) })),
  credentials: v.optional(v.string()),
  pid: v.pipe(v.number(), v.integer()),
  startedAt: v.string(),
});

export interface ServingNote {
  remove(): void;
}

/**
 * Writes the note of this process and returns the function that removes it. Without a data folder, as with an
 * external database and no model files, no note is written.
 */
export function leaveServingNote(dataDir: string, at: ServingAt): ServingNote {
  const path = pathIn(dataDir);
  if (!existsSync(dataDir)) return { remove: () => {} };
  const mine: Note = { ...at, pid: process.pid, startedAt: startOf(process.pid) ?? "" };
  const draft = `${path}.${process.pid}`;
  // Written completely or not at all, and in place of anything that another user left there.
  rmSync(draft, { force: true });
  writeFileSync(draft, `${JSON.stringify(mine)}\n`, { mode: 0o644, flag: "wx" });
  renameSync(draft, path);
  return {
    remove() {
      // A second service on the same folder may have written its own note since.
      if (readNote(path)?.pid === process.pid) rmSync(path, { force: true });
    },
  };
}

/**
 * Finds where the service of a data folder listens; undefined if no running service left a note. With `of`, only a
 * note of that user counts.
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

/** Returns the folder if this process may read it on the word of that user; undefined otherwise. */
function believedFolder(
  folder: string,
  { uid, unit }: { readonly uid: number; readonly unit: string | undefined },
): string | undefined {
  // Root and the user of this process need no note to read the folder.
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
 * Returns the unit of the system's systemd that a process runs in, from `/proc/PID/cgroup`; undefined if there is none.
 * Only groups directly below slices count: a user's own manager, or a service that makes groups, can choose any names
 * below its own group.
 */
export function parseUnitName(cgroup: string): string | undefined {
  return /^(?:0:|\d+:name=systemd):(?:\/[^/\n]+\.slice)+\/([^/\n]+\.service)$/m.exec(cgroup)?.[1];
}

/** Returns the user of a process; undefined if the process does not exist. Source: proc(5). */
function userOf(pid: number): number | undefined {
  try {
    const [, uid] = /^Uid:\t\d+\t(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
    return uid === undefined ? undefined : Number(uid);
  } catch {
    return undefined;
  }
}

/** Returns the start time of a process in the kernel's ticks; undefined if it does not exist. Source: proc(5). */
function startOf(pid: number): string | undefined {
  try {
    // The name in parentheses can contain anything. Numbers follow it; the start time is the 20th.
    return readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /s, "")
      .split(" ")[19];
  } catch {
    return undefined;
  }
}

/**
 * The serving note: the file `serving` in the data folder. It says where a running service listens and which files
 * it uses. Only the service knows its flags and the settings of its unit, and `doctor` examines what is in use.
 *
 * A killed service leaves its note behind. So the note has the process number and the start time of the process,
 * which no later process with that number shares. A note of a process that has ended is ignored.
 */
import { constants, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import * as v from "valibot";
import { pathInData } from "../base/host/mod.ts";
import { readRegularFile } from "../base/read_regular_file.ts";

const NOTE_LIMIT_BYTES = 16 * 1024;

const integer = v.pipe(v.number(), v.integer());
const address = v.object({ host: v.string(), port: integer });
const note = v.object({
  ...address.entries,
  /** The certificate and key of its https. */
  tls: v.optional(
    v.object({ certFile: v.string(), keyFile: v.string(), isCopy: v.optional(v.literal(true)) }),
  ),
  /** The listener for operators, if there is one. */
  admin: v.optional(address),
  /** The address that a demo gives to clients, because none is set. */
  demoUrl: v.optional(v.string()),
  pid: integer,
  startedAt: v.string(),
});

type Note = Readonly<v.InferOutput<typeof note>>;
export type ServingAt = Omit<Note, "pid" | "startedAt">;

export type ServingNote = ReturnType<typeof leaveServingNote>;

/**
 * Writes the note of this process and returns the function that removes it. Without a data folder, as with an
 * external database and no model files, no note is written.
 */
export function leaveServingNote(dataDir: string, at: ServingAt) {
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

/** Finds where the service of a data folder listens; undefined if no running service left a note. */
export function findServing(dataDir: string): ServingAt | undefined {
  const left = readNote(pathIn(dataDir));
  if (left === undefined) return undefined;
  const { pid, startedAt, ...at } = left;
  return startOf(pid) === startedAt ? at : undefined;
}

/** Finds the address under which clients reach the service: the one that is set, or that of a running demo. */
export function findPublicUrl({
  publicUrl,
  dataDir,
}: {
  readonly publicUrl: string | undefined;
  readonly dataDir: string;
}): string | undefined {
  return publicUrl ?? findServing(dataDir)?.demoUrl;
}

function pathIn(dataDir: string): string {
  return pathInData(dataDir, "serving");
}

function readNote(path: string): Note | undefined {
  try {
    return v.parse(note, JSON.parse(readRegularFile(path, NOTE_LIMIT_BYTES, constants.O_NOFOLLOW)));
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

/**
 * Reads and writes the text of the lock file, which names the process that holds a data folder: `serve 1234 ready`.
 * The lock itself is the kernel's. The text only helps to decide whether waiting makes sense, and to name the other
 * process. After a crash the text is out of date until the next holder writes it, so a process that has ended does
 * not count as a holder.
 */
import { constants, existsSync } from "node:fs";
import { readRegularFile } from "../../base/read_regular_file.ts";

const LIMIT_BYTES = 256;

export type HolderKind = "serve" | "command";

interface Holder {
  readonly kind: HolderKind;
  readonly pid: number;
  /** While this is `starting`, a server that answers in the folder may be an old one, which is about to be stopped. */
  readonly phase: "starting" | "ready";
}

/** Renders the text of the lock file. */
export function renderHolder(holder: Holder): string {
  return `${holder.kind} ${holder.pid} ${holder.phase}\n`;
}

/** Returns the holder; undefined if the file names no process or a process that has ended. */
export function readHolder(path: string): Holder | undefined {
  let text: string;
  try {
    text = readRegularFile(path, LIMIT_BYTES, constants.O_NOFOLLOW);
  } catch {
    return undefined;
  }
  const [, kind, pid, phase] = /^(serve|command) (\d+) (starting|ready)\n$/.exec(text) ?? [];
  if (kind === undefined || pid === undefined || !existsSync(`/proc/${pid}`)) return undefined;
  return {
    kind: kind === "serve" ? "serve" : "command",
    pid: Number(pid),
    phase: phase === "ready" ? "ready" : "starting",
  };
}

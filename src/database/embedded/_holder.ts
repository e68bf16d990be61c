/**
 * Who holds a data folder, as the lock file says it: `serve 1234 ready`. The lock itself is the
 * kernel's; the text only helps to decide whether waiting makes sense, and to name the other process.
 * Between a crash and the next holder's first word it is out of date, so a process that is not there
 * counts as nobody.
 */
import { constants, existsSync } from "node:fs";
import { readRegularFile } from "../../read_regular_file.ts";

const LIMIT_BYTES = 256;

export type HolderKind = "serve" | "command";

export interface Holder {
  readonly kind: HolderKind;
  readonly pid: number;
  /** Until it is ready, a server that answers in the folder may be one about to be stopped. */
  readonly phase: "starting" | "ready";
}

export function renderHolder(holder: Holder): string {
  return `${holder.kind} ${holder.pid} ${holder.phase}\n`;
}

/** Undefined where the file does not say, or says somebody who has ended. */
export function readHolder(path: string): Holder | undefined {
  let text: string;
  try {
    text = readRegularFile(path, LIMIT_BYTES, constants.O_NOFOLLOW).text;
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

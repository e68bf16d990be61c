/** Shows a progress bar for long work, if standard error is a terminal. */
import type { Invocation } from "./invocation.ts";

const WIDTH = 40;

/** Draws the bar again in its line. At the end the bar stays, and the next output begins below it. */
export function showProgress(
  invocation: Invocation,
  done: number,
  { total, unit }: { readonly total: number; readonly unit?: string },
): void {
  if (!invocation.isTerminal) return;
  const filled = total === 0 ? WIDTH : Math.round((done / total) * WIDTH);
  const bar = `[${"#".repeat(filled)}${" ".repeat(WIDTH - filled)}]`;
  const end = done === total ? "\n" : "";
  invocation.err(`\r${bar} ${done} of ${total}${unit === undefined ? "" : ` ${unit}`}${end}`);
}

/**
 * Returns a function to call with the number of bytes that are done. It shows megabytes, draws only when their number
 * changes, and ends the bar once. It throws if the command is interrupted.
 */
export function byteProgress(
  invocation: Invocation,
  stopIfInterrupted: () => void,
): (doneBytes: number, totalBytes: number) => void {
  let shown = -1;
  return (doneBytes, totalBytes) => {
    stopIfInterrupted();
    const total = Math.ceil(totalBytes / 1e6);
    // The last megabyte counts only when all bytes are done.
    const done = doneBytes >= totalBytes ? total : Math.min(Math.floor(doneBytes / 1e6), total - 1);
    if (done === shown) return;
    shown = done;
    showProgress(invocation, done, { total, unit: "MB" });
  };
}

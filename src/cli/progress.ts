/** A bar on a terminal for work that lasts; nothing where standard error is something else. */
import type { Surroundings } from "./surroundings.ts";

const WIDTH = 40;

/** Draws the bar anew; at the end it stays, and a line begins below it. */
export function showProgress(
  surroundings: Surroundings,
  done: number,
  { total, unit }: { readonly total: number; readonly unit?: string },
): void {
  if (!surroundings.isTerminal) return;
  const filled = total === 0 ? WIDTH : Math.round((done / total) * WIDTH);
  const bar = `[${"#".repeat(filled)}${" ".repeat(WIDTH - filled)}]`;
  const end = done === total ? "\n" : "";
  surroundings.err(`\r${bar} ${done} of ${total}${unit === undefined ? "" : ` ${unit}`}${end}`);
}

/**
 * Makes what is to be called as bytes are done: it draws in megabytes, only where that shows, and ends the
 * bar once.
 */
export function byteProgress(surroundings: Surroundings): (doneBytes: number, totalBytes: number) => void {
  let shown = -1;
  return (doneBytes, totalBytes) => {
    const total = Math.ceil(totalBytes / 1e6);
    // The last megabyte is full when all bytes are done, and only then.
    const done = doneBytes >= totalBytes ? total : Math.min(Math.floor(doneBytes / 1e6), total - 1);
    if (done === shown) return;
    shown = done;
    showProgress(surroundings, done, { total, unit: "MB" });
  };
}

import { createHash } from "node:crypto";
import type { TableSum } from "./format.ts";

const NEWLINE = 0x0a;

/** Counts and hashes the rows of a table in a stream. */
export function createRowSum() {
  const hash = createHash("sha256");
  let rows = 0;
  let bytes = 0;
  return {
    add(chunk: Buffer): void {
      hash.update(chunk);
      bytes += chunk.length;
      // In the text format, a newline inside a value is written as `\n`.
      for (let at = chunk.indexOf(NEWLINE); at !== -1; at = chunk.indexOf(NEWLINE, at + 1)) rows++;
    },
    rows: () => rows,
    end: (name: string): TableSum => ({ name, rows, bytes, sha256: hash.digest("hex") }),
  };
}

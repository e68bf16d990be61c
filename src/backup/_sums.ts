import { createHash } from "node:crypto";
import type { TableSum } from "./format.ts";

/** Counts and hashes the rows of a table in a stream. */
export interface RowSum {
  add(bytes: Buffer): void;
  rows(): number;
  end(name: string): TableSum;
}

const NEWLINE = 0x0a;

/** Creates the sum of no rows, to which rows are added. */
export function createRowSum(): RowSum {
  const hash = createHash("sha256");
  let rows = 0;
  let bytes = 0;
  return {
    add(chunk) {
      hash.update(chunk);
      bytes += chunk.length;
      // In the text format, a newline inside a value is written as `\n`.
      for (let at = chunk.indexOf(NEWLINE); at !== -1; at = chunk.indexOf(NEWLINE, at + 1)) rows++;
    },
    rows: () => rows,
    end: (name) => ({ name, rows, bytes, sha256: hash.digest("hex") }),
  };
}

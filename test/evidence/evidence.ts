/** The file of evidence: what was measured and tried for a version, all of it of one commit on one machine. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Machine } from "../bench/machine.ts";
import type { Result } from "../bench/row.ts";
import type { Report } from "../crash_test/report.ts";
import type { RunResult } from "../hostile_input/generated_run.ts";
import type { Extent } from "./extent.ts";

/** What each part leaves in its own file. */
export interface Reports {
  /** That the suite and every proof passed, and how much those of the guarantees tried. */
  readonly proofs: { readonly extent: Extent };
  readonly crash_test: Report;
  readonly hostile_input: RunResult;
  /** With the start of the executable. */
  readonly bench: { readonly rows: readonly Result[]; readonly disturbed: number };
}

export interface Evidence {
  readonly version: string;
  /** True after a run that is too short for publication. */
  readonly isQuick: boolean;
  readonly machine: Omit<Machine, "host">;
  readonly reports: Reports;
}

/** Returns the evidence of the newest version that is kept in this folder, or undefined. */
export function readEvidence(): Evidence | undefined {
  const files = readdirSync(import.meta.dir).filter((name) => name.endsWith(".json"));
  const newest = files.toSorted((a, b) => a.localeCompare(b, "en", { numeric: true })).at(-1);
  return newest === undefined ? undefined : JSON.parse(readFileSync(join(import.meta.dir, newest), "utf8"));
}

import type { Unseen } from "../config/mod.ts";
import { refusedWrite } from "../database/mod.ts";
import { readRegularFile } from "../read_regular_file.ts";
import { hasCode, reasonOf } from "../system_error.ts";

/** `skip`: this user cannot see enough to judge. */
export type FindingState = "ok" | "warn" | "fail" | "skip";

export interface Finding {
  /** What was looked at, in a word or two. */
  readonly name: string;
  readonly state: FindingState;
  /** What is, as one line. */
  readonly message: string;
  /** What to do about it: a command or a sentence; nothing where all is well. */
  readonly remedy?: string;
}

/** Looks at one thing, at most one line each. What it throws is a finding too. */
export interface Check<Context> {
  readonly name: string;
  examine(context: Context): Promise<Finding> | Finding;
}

export function ok(name: string, message: string): Finding {
  return { name, state: "ok", message };
}

export function warn(name: string, message: string, remedy: string): Finding {
  return { name, state: "warn", message, remedy };
}

export function fail(name: string, message: string, remedy: string): Finding {
  return { name, state: "fail", message, remedy };
}

export function skip(name: string, message: string, remedy: string): Finding {
  return { name, state: "skip", message, remedy };
}

const AS_ROOT = "run as root";
/** What to do about a disk to which the database cannot write. */
export const FREE_SPACE = "free some space on the server's disk";

/** Skips a check when the service may have settings that are not seen here. */
export function unseenBy(
  name: string,
  { unseen }: { readonly unseen?: Unseen | undefined },
): Finding | undefined {
  return unseen === undefined ? undefined : skip(name, `cannot be seen: ${unseen.why}`, unseen.remedy);
}

const FILE_LIMIT_BYTES = 64 * 1024;

/** Throws EACCES for a file that this user may not read: such a file cannot be judged. */
export function demandSight(file: string): void {
  try {
    readRegularFile(file, FILE_LIMIT_BYTES);
  } catch (error) {
    if (hasCode(error, "EACCES")) throw error;
  }
}

/** Runs checks in order: one that breaks down is a failure of its own and stops none of the others. */
export async function examine<Context>(
  context: Context,
  checks: readonly Check<Context>[],
): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const { name, examine: look } of checks) {
    try {
      findings.push(await look(context));
    } catch (error) {
      findings.push(explain(name, error));
    }
  }
  return findings;
}

function explain(name: string, error: unknown): Finding {
  if (hasCode(error, "EACCES")) return skip(name, `cannot be seen by this user: ${reasonOf(error)}`, AS_ROOT);
  const refusal = refusedWrite(error);
  return refusal === undefined
    ? fail(name, `cannot be looked at: ${reasonOf(error)}`, "see the sentence; then `claviger doctor` again")
    : fail(name, `cannot be looked at: ${refusal.message}`, FREE_SPACE);
}

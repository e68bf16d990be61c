import { readRegularFile } from "../../base/read_regular_file.ts";
import { hasCode, reasonOf } from "../../base/system_error.ts";
import { REPLACE_DATA } from "../../database/embedded/mod.ts";
import { damageOf, refusedWrite } from "../../database/mod.ts";
import type { Unseen } from "../config/mod.ts";

/** `skip` means that this user cannot see enough to decide. */
export type FindingState = "ok" | "warn" | "fail" | "skip";

/** What one check found. */
export interface CheckResult {
  readonly state: FindingState;
  /** The result, as one line. */
  readonly message: string;
  /** Says what to do, with commands between backticks, as Markdown has them; undefined for `ok`. */
  readonly remedy?: string;
}

export interface Finding extends CheckResult {
  /** The name of the check, one or two words. */
  readonly name: string;
}

/** Examines one thing and returns one line. An error that it throws becomes a finding, too. */
export interface Check<Context> {
  readonly name: string;
  examine(context: Context): Promise<CheckResult> | CheckResult;
}

/** Returns the finding that nothing needs to be done. */
export function ok(message: string): CheckResult {
  return { state: "ok", message };
}

/** Returns the finding of something that will become a problem. */
export function warn(message: string, remedy: string): CheckResult {
  return { state: "warn", message, remedy };
}

/** Returns the finding of a problem. */
export function fail(message: string, remedy: string): CheckResult {
  return { state: "fail", message, remedy };
}

/** Returns the finding of a check for which this user lacks the rights. */
export function skip(message: string, remedy: string): CheckResult {
  return { state: "skip", message, remedy };
}

/** The remedy for a disk to which the database cannot write. */
export const FREE_SPACE = "free some space on the server's disk";

/** The remedy for damaged data. */
export const RESTORE = `check the disk, and restore a backup: ${REPLACE_DATA}`;

/** Returns a `skip` if the service may have settings that this process cannot see; otherwise undefined. */
export function skipUnseen({ unseen }: { readonly unseen?: Unseen | undefined }): CheckResult | undefined {
  return unseen === undefined ? undefined : skip(`cannot be seen: ${unseen.why}`, unseen.remedy);
}

const FILE_LIMIT_BYTES = 64 * 1024;

/** Throws EACCES for a file that this user may not read; {@linkcode examine} turns that into a `skip`. */
export function requireReadable(file: string): void {
  try {
    readRegularFile(file, FILE_LIMIT_BYTES);
  } catch (error) {
    if (hasCode(error, "EACCES")) throw error;
  }
}

/** What several runs of {@linkcode examine} have found together. */
export interface FoundDamage {
  /** The name of the first check that met damaged data. */
  damage?: string;
}

/**
 * Runs checks in order. If a check throws, that is its finding, and the next check runs. Damaged data is one finding:
 * further checks that meet it, also those of an earlier run with the same `found`, refer to it.
 */
export async function examine<Context>(
  context: Context,
  checks: readonly Check<Context>[],
  found: FoundDamage = {},
): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const { name, examine: look } of checks) {
    try {
      findings.push({ name, ...(await look(context)) });
    } catch (error) {
      const damage = damageOf(error);
      const finding =
        damage === undefined
          ? explain(error)
          : found.damage === undefined
            ? fail(`the data is damaged: ${damage}`, RESTORE)
            : skip("cannot be checked: the data is damaged", `see ${found.damage} above`);
      if (damage !== undefined) found.damage ??= name;
      findings.push({ name, ...finding });
    }
  }
  return findings;
}

function explain(error: unknown): CheckResult {
  if (hasCode(error, "EACCES"))
    return skip(`cannot be seen by this user: ${reasonOf(error)}`, "let the service's user read it");
  const refusal = refusedWrite(error);
  return refusal === undefined
    ? fail(`cannot be checked: ${reasonOf(error)}`, "remove this cause, then run `claviger doctor` again")
    : fail(`cannot be checked: ${refusal.message}`, FREE_SPACE);
}

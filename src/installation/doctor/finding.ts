import { readRegularFile } from "../../base/read_regular_file.ts";
import { hasCode, reasonOf } from "../../base/system_error.ts";
import { REPLACE_DATA } from "../../database/embedded/mod.ts";
import { explainFailure, refusedWrite } from "../../database/mod.ts";
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

/** The causes that several runs of {@linkcode examine} have met together, with the first check that met each of them. */
export type FoundCauses = Map<string, string>;

/** Stands for damaged data in {@linkcode FoundCauses}, whatever the server said about it. */
export const DAMAGE = "the data is damaged";

/** Returns the finding of a check that cannot be made because of what another check has found. */
export function skipFor(name: string): CheckResult {
  return { state: "skip", message: `not examined: see ${name} above` };
}

/**
 * Runs checks in order. If a check throws, that is its finding, and the next check runs. A cause is one finding: further
 * checks that meet it, also those of another run with the same `found`, refer to it.
 */
export async function examine<Context>(
  context: Context,
  checks: readonly Check<Context>[],
  found: FoundCauses = new Map(),
): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const { name, examine: look } of checks) {
    try {
      findings.push({ name, ...(await look(context)) });
    } catch (error) {
      const finding = explain(error);
      const cause = explainFailure(error)?.damage === undefined ? finding.message : DAMAGE;
      const first = found.get(cause);
      findings.push({ name, ...(first === undefined ? finding : skipFor(first)) });
      if (first === undefined) found.set(cause, name);
    }
  }
  return findings;
}

function explain(error: unknown): CheckResult {
  if (hasCode(error, "EACCES"))
    return skip(`cannot be seen by this user: ${reasonOf(error)}`, "let the service's user read it");
  const {
    why = reasonOf(error),
    remedy = "remove this cause, then run `claviger doctor` again",
    damage,
  } = explainFailure(error) ?? {};
  if (damage !== undefined) return fail(`the data is damaged: ${damage}`, RESTORE);
  const refusal = refusedWrite(error);
  if (refusal !== undefined) return fail(`cannot be checked: ${refusal.message}`, FREE_SPACE);
  return fail(`cannot be checked: ${why}`, remedy);
}

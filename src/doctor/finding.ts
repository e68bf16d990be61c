export type FindingState = "ok" | "warn" | "fail";

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
export interface Check<Patient> {
  readonly name: string;
  examine(patient: Patient): Promise<Finding> | Finding;
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

/** Runs checks in order: one that breaks down is a failure of its own and stops none of the others. */
export async function examine<Patient>(
  patient: Patient,
  checks: readonly Check<Patient>[],
): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const { name, examine: look } of checks) {
    try {
      findings.push(await look(patient));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      findings.push(fail(name, `cannot be looked at: ${reason}`, "run as root"));
    }
  }
  return findings;
}

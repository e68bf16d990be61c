/** Runs tests in a copy of the checkout, and says how they ended. */

/** A run that takes longer hangs. The longest takes a minute on two free cores. */
const LIMIT_MS = 15 * 60_000;
/** What a run may still take to stop its PostgreSQL. */
const GRACE_MS = 20_000;

export interface TestRun {
  /** `crashed` without a failed test to show for it; `hung` if nothing failed but tests that timed out, or the run did. */
  readonly outcome: "passed" | "failed" | "crashed" | "hung";
  /** The first failed test or, if it crashed, the first error. */
  readonly reason: string;
  /** The files in which something failed, each with its first failed test. */
  readonly failed: Readonly<Record<string, string>>;
}

interface RunOptions {
  readonly limitMs?: number;
}

const running = new Set<number>();

/** Ends all runs, with the PostgreSQL of each. */
export async function stopRuns(): Promise<void> {
  const ids = [...running];
  for (const id of ids) signal(id, "SIGTERM");
  const until = Date.now() + GRACE_MS;
  while (ids.some((id) => running.has(id)) && Date.now() < until) await Bun.sleep(50);
  for (const id of ids) signal(id, "SIGKILL");
}

/** Runs `run_suite.ts` of the copy with these words: paths of tests, and flags of `bun test`. */
export async function runTests(
  root: string,
  words: readonly string[],
  { limitMs = LIMIT_MS }: RunOptions = {},
): Promise<TestRun> {
  // A process group of its own can be ended as a whole.
  const child = Bun.spawn([process.execPath, "test/support/run_suite.ts", ...words], {
    cwd: root,
    detached: true,
    stdio: ["ignore", "ignore", "pipe"],
  });
  running.add(child.pid);
  let isLate = false;
  const late = setTimeout(() => {
    isLate = true;
    signal(child.pid, "SIGTERM");
  }, limitMs);
  const tooLate = setTimeout(() => signal(child.pid, "SIGKILL"), limitMs + GRACE_MS);
  try {
    const output = await new Response(child.stderr).text();
    const status = await child.exited;
    return judge(output, { status, isLate });
  } finally {
    clearTimeout(late);
    clearTimeout(tooLate);
    running.delete(child.pid);
  }
}

function signal(group: number, name: NodeJS.Signals): void {
  try {
    process.kill(-group, name);
  } catch {
    // It has ended.
  }
}

/** Returns how a run of `bun test` with this output ended. */
export function judge(
  output: string,
  { status, isLate = false }: { readonly status: number; readonly isLate?: boolean },
): TestRun {
  const failed: Record<string, string> = {};
  const failures: { test: string; isTimedOut: boolean }[] = [];
  let [file, error] = ["", ""];
  for (const line of output.split("\n")) {
    // The summary at the end repeats the failures of all files.
    if (/^\d+ tests? failed:$/.test(line)) break;
    const [, header] = /^test\/(\S+_test\.tsx?):$/.exec(line) ?? [];
    file = header ?? file;
    if (error === "" && /^error: |worker crashed/.test(line)) error = line;
    const [, name] = /^\(fail\) (.*?)(?: \[[\d.]+ms\])?$/.exec(line) ?? [];
    if (name !== undefined || /^# Unhandled error|worker crashed/.test(line)) failed[file] ??= name ?? line;
    // What fails before or after the tests has no name.
    if (name !== undefined && !name.endsWith("(unnamed)")) {
      failures.push({ test: file === "" ? name : `${file}: ${name}`, isTimedOut: false });
    }
    if (/^\s*\^ this test timed out/.test(line) && failures.length > 0) failures.at(-1)!.isTimedOut = true;
  }
  const judged = failures.find(({ isTimedOut }) => !isTimedOut);
  const run = (outcome: TestRun["outcome"], reason = "") => ({ outcome, reason, failed });
  if (judged !== undefined) return run("failed", judged.test);
  if (failures.length > 0 || isLate) return run("hung", failures[0]?.test ?? "the whole run");
  return status === 0 ? run("passed") : run("crashed", error);
}

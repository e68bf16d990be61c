/**
 * Measures the suite: `make prove-faults` plants each fault of `faults.jsonl`, one at a time, runs the tests that should
 * notice it, and reports which faults survived. Exits with 1 if one survived or cannot be planted any more.
 *
 * Words limit it: `bun test/planted_faults/main.ts m01 m02`, or a part of a file's path. `--at-once=N` plants so many
 * faults at once, each in a copy of its own; by default one for each core, and four at most.
 *
 * Faults are planted in copies of the checkout, with the changes that are not committed. So nothing is left in the
 * checkout by a run that is interrupted. First all the tests run without a fault: a file that fails anyhow, also alone,
 * would notice everything, so it is left out. A run ends with its first failed test. A fault with which the program
 * crashes or a test hangs is caught, too, but says little about the tests, so it is marked. It is unknown if the same
 * happens once more without the fault: then the machine is too busy.
 */
import { availableParallelism } from "node:os";
import { CHECKOUT } from "../../src/build/parts.ts";
import { copyCheckout } from "../build/copy_checkout.ts";
import { chooseFaults, findStale, type PlantedFault, plant, readFaults, testsOf } from "./faults.ts";
import { runTests, stopRuns, type TestRun } from "./run_tests.ts";

type Verdict = "caught" | "SURVIVED" | "UNKNOWN" | "STALE";

/** Several files at once in each copy, since many tests wait. */
const FILES_AT_ONCE = 2;
const FLAGS = ["--bail", `--parallel=${FILES_AT_ONCE}`];
const FIRST_LIMIT_MS = 60 * 60_000;
const MARKS = { failed: "", crashed: "crashes: ", hung: "hangs: ", passed: "" };

const given = process.argv.slice(2);
const words = given.filter((word) => !word.startsWith("-"));
const [flag = `--at-once=${Math.min(4, availableParallelism())}`] = given.filter((word) =>
  word.startsWith("-"),
);
const atOnce = Number(/^--at-once=([1-9]\d?)$/.exec(flag)?.[1]);
if (Number.isNaN(atOnce)) throw new Error(`The only flag is --at-once=N, not ${flag}`);
const beganMs = Date.now();
const chosen = chooseFaults(readFaults(), words);
const verdicts = new Map<PlantedFault, Verdict>();
const marks = { crashed: 0, hung: 0, failed: 0, passed: 0 };
for (const fault of chosen) {
  const why = findStale(fault, CHECKOUT);
  if (why !== undefined) report(fault, "STALE", why);
}
const waiting = chosen.filter((fault) => !verdicts.has(fault));
const copies = Array.from({ length: Math.min(waiting.length, atOnce) }, () =>
  copyCheckout("claviger", { isLinked: true }),
);
let isStopping = false;
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.once(signal, () => {
    isStopping = true;
    void stopRuns().finally(() => {
      removeCopies();
      process.exit(1);
    });
  });
}
try {
  const red = await findRed();
  await Promise.all(copies.map(({ folder }) => plantWaiting(folder, red)));
} finally {
  removeCopies();
}

const minutes = Math.ceil((Date.now() - beganMs) / 60_000);
const count = (verdict: Verdict) => [...verdicts.values()].filter((each) => each === verdict).length;
console.log(
  `\n${chosen.length} planted faults in ${minutes} minutes, ${copies.length} at once: ${count("caught")} caught (${marks.crashed} by a ` +
    `crash, ${marks.hung} by a test that hangs), ${count("SURVIVED")} survived, ${count("UNKNOWN")} unknown, ${count("STALE")} stale`,
);
for (const [{ id, file, search }, verdict] of verdicts) {
  if (verdict !== "caught")
    console.log(`${verdict.padEnd(9)} ${id.padEnd(5)} ${file}: ${JSON.stringify(search)}`);
}
process.exit(count("caught") === chosen.length ? 0 : 1);

function removeCopies(): void {
  for (const copy of copies) copy.remove();
}

/** Notes the verdict, and prints its line. */
function report(fault: PlantedFault, verdict: Verdict, text: string): void {
  verdicts.set(fault, verdict);
  console.log(`${verdict.padEnd(9)} ${fault.id.padEnd(5)} ${text}`);
}

/** Runs all the tests without a fault, and each file with a failed test again, alone. Returns those that fail again. */
async function findRed(): Promise<Set<string>> {
  const red = new Set<string>();
  const [copy] = copies;
  if (copy === undefined) return red;
  const files = [...new Set(waiting.flatMap((fault) => testsOf(fault, copy.folder)))];
  console.log(`First the tests without a fault, ${files.length} files`);
  const first = await run(copy.folder, files, { limitMs: FIRST_LIMIT_MS });
  if (first.outcome !== "passed" && Object.keys(first.failed).length === 0)
    throw new Error(`Without a fault the tests did not end: ${first.reason}. So no result would count`);
  for (const [file, test] of Object.entries(first.failed)) {
    const { outcome, reason } = await run(copy.folder, [file]);
    // A test that fails on a busy machine is a fault of its own.
    if (outcome === "passed") console.log(`red once  ${file}: ${test}`);
    else {
      red.add(file);
      console.log(`RED       without a fault, so it is left out: ${file}: ${reason}`);
    }
  }
  return red;
}

/** Plants one waiting fault after another in a copy, until none is left. */
async function plantWaiting(folder: string, red: ReadonlySet<string>): Promise<void> {
  for (let fault = waiting.shift(); fault !== undefined; fault = waiting.shift()) {
    const startedMs = Date.now();
    const named = testsOf(fault, folder);
    const files = named.filter((file) => !red.has(file));
    const { outcome, reason } = await runWith(fault, folder, files);
    const isCaught = outcome !== "passed" && (!isDoubtful(outcome) || (await endsWithout(folder, files)));
    if (isCaught) marks[outcome] += 1;
    const missed = outcome === "passed" && files.length === named.length ? "SURVIVED" : "UNKNOWN";
    const seconds = `${Math.round((Date.now() - startedMs) / 1_000)} s`.padStart(5);
    report(fault, isCaught ? "caught" : missed, `${seconds}  ${MARKS[outcome]}${reason}`);
  }
}

/** Runs these tests with a fault. If only a test that hung or a crash shows it, they run once more: the machine may be busy. */
async function runWith(fault: PlantedFault, folder: string, files: readonly string[]): Promise<TestRun> {
  const remove = plant(fault, folder);
  try {
    const first = await run(folder, files, { flags: FLAGS });
    return isDoubtful(first.outcome) ? await run(folder, files, { flags: FLAGS }) : first;
  } finally {
    remove();
  }
}

function isDoubtful(outcome: TestRun["outcome"]): boolean {
  return outcome === "hung" || outcome === "crashed";
}

/** Tells whether the tests also end without a fault, on a machine on which they hung or crashed with one. */
async function endsWithout(folder: string, files: readonly string[]): Promise<boolean> {
  return !isDoubtful((await run(folder, files, { flags: FLAGS })).outcome);
}

async function run(
  folder: string,
  files: readonly string[],
  { flags = [], limitMs }: { readonly flags?: readonly string[]; readonly limitMs?: number } = {},
): Promise<TestRun> {
  if (files.length === 0) return { outcome: "passed", reason: "", failed: {} };
  const paths = files.map((file) => `./test/${file}`);
  const ended = await runTests(folder, [...flags, ...paths], limitMs === undefined ? {} : { limitMs });
  // A signal has ended the run, so its outcome says nothing. The process ends when everything is removed.
  if (isStopping) await new Promise(() => {});
  return ended;
}

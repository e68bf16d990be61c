/**
 * Measures the suite: `make prove-faults` plants each fault of `faults.jsonl`, one at a time, runs the tests that should
 * notice it, and reports which faults survived. Exits with 1 if one survived or cannot be planted any more.
 *
 * Words limit it: `bun test/planted_faults/main.ts m01 m02`, or a part of a file's path. `--at-once=N` plants so many
 * faults at once, each in a copy of its own; by default one for each core, and four at most.
 *
 * Faults are planted in copies of the checkout, with the changes that are not committed. So nothing is left in the
 * checkout by a run that is interrupted. First all the tests run without a fault, since a test that fails anyhow would
 * notice everything. A run ends with its first failed test. A fault with which the program crashes or a test hangs is
 * caught, too, but says little about the tests, so it is marked.
 */
import { availableParallelism } from "node:os";
import { CHECKOUT } from "../../src/build/parts.ts";
import { copyCheckout } from "../build/copy_checkout.ts";
import { chooseFaults, findStale, type PlantedFault, plant, readFaults, testsOf } from "./faults.ts";
import { runTests, stopRuns, type TestRun } from "./run_tests.ts";

/** Several files at once in each copy, since many tests wait. */
const FILES_AT_ONCE = 2;

const MARKS = { failed: "", crashed: "crashes: ", hung: "hangs: ", passed: "" };

const args = process.argv.slice(2);
const atOnce = Number(/=(\d+)$/.exec(args.find((arg) => arg.startsWith("--at-once")) ?? "")?.[1] ?? 0);
const chosen = chooseFaults(
  readFaults(),
  args.filter((arg) => !arg.startsWith("--")),
);
const stale = chosen.filter((fault) => findStale(fault, CHECKOUT) !== undefined);
const waiting = chosen.filter((fault) => !stale.includes(fault));
const copies = Array.from({ length: Math.min(waiting.length, atOnce || defaultAtOnce()) }, () =>
  copyCheckout("claviger", { isLinked: true }),
);
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.once(signal, () => {
    void stopRuns().finally(() => {
      removeCopies();
      process.exit(1);
    });
  });
}

const beganMs = Date.now();
const counts = { failed: 0, crashed: 0, hung: 0, passed: 0 };
const survived: PlantedFault[] = [];
for (const fault of stale) report("STALE", fault, findStale(fault, CHECKOUT) ?? "");
try {
  await expectGreen();
  await Promise.all(copies.map(({ folder }) => plantWaiting(folder)));
} finally {
  removeCopies();
}
const marked = `${counts.crashed} by a crash, ${counts.hung} by a test that hangs`;
console.log(
  `\n${chosen.length} planted faults in ${Math.ceil((Date.now() - beganMs) / 60_000)} minutes: ` +
    `${counts.failed + counts.crashed + counts.hung} caught (${marked}), ${counts.passed} survived, ${stale.length} stale`,
);
for (const fault of survived) report("SURVIVED", fault, `${fault.file}: ${JSON.stringify(fault.search)}`);
process.exit(counts.passed + stale.length === 0 ? 0 : 1);

function defaultAtOnce(): number {
  return Math.min(4, availableParallelism());
}

function removeCopies(): void {
  for (const copy of copies) copy.remove();
}

/** Prints a line of the report. */
function report(what: string, { id }: PlantedFault, text: string): void {
  console.log(`${what.padEnd(9)} ${id.padEnd(5)} ${text}`);
}

/** Runs all the tests without a fault, and those that failed once more, alone. Throws if one fails again. */
async function expectGreen(): Promise<void> {
  const [copy] = copies;
  if (copy === undefined) return;
  console.log("First the tests without a fault");
  const tests = [...new Set(waiting.flatMap(testsOf))];
  const all = await runTests(copy.folder, tests, { limitMs: 60 * 60_000 });
  if (all.outcome === "passed") return;
  const again = all.failed.map((file) => `./test/${file}`);
  const repeated = again.length === 0 ? all : await runTests(copy.folder, again);
  if (repeated.outcome === "passed") return;
  const files = repeated.failed.join(", ");
  throw new Error(
    `Without a fault ${repeated.outcome}: ${files}: ${repeated.reason}. So no result would count`,
  );
}

/** Plants one waiting fault after another in a copy, until none is left. */
async function plantWaiting(folder: string): Promise<void> {
  for (let fault = waiting.shift(); fault !== undefined; fault = waiting.shift()) {
    const startedMs = Date.now();
    const { outcome, reason } = await runWith(fault, folder);
    counts[outcome] += 1;
    if (outcome === "passed") survived.push(fault);
    const seconds = `${Math.round((Date.now() - startedMs) / 1_000)} s`;
    report(
      outcome === "passed" ? "SURVIVED" : "caught",
      fault,
      `${seconds.padStart(5)}  ${MARKS[outcome]}${reason}`,
    );
  }
}

/** Runs the tests of a fault. A test that only hung runs once more, because the machine may be busy. */
async function runWith(fault: PlantedFault, folder: string): Promise<TestRun> {
  const remove = plant(fault, folder);
  const words = ["--bail", `--parallel=${FILES_AT_ONCE}`, ...testsOf(fault)];
  try {
    const run = await runTests(folder, words);
    return run.outcome === "hung" ? await runTests(folder, words) : run;
  } finally {
    remove();
  }
}

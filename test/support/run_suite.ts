/**
 * Runs `bun test` on one PostgreSQL for all test files:
 * `bun test/support/run_suite.ts [--proofs [--short] | --as-root | --any-order] [PATTERN…] [FLAG OF BUN TEST…]`.
 *
 * Several processes share the test files, and each would start, migrate and stop its own PostgreSQL. This script starts
 * one first, and the files find its address in their environment. A process keeps its modules from file to file, as a
 * bare `bun test` does: loading them anew for each file took 10 s of 185 s.
 * `make test ARGS=--update-timings` measures how long each file takes; the longest files then start first.
 * With `--proofs` it runs the slow proofs instead (`*_proof.ts`), on the disk: first those that run alone, one file
 * after another, then the others, several at a time; with `--short` without those that take more than a minute. With
 * `--as-root` it runs the files whose tests ask whether root runs them, also those of the compiled executable. With
 * `--any-order` it runs the tests of every file in a random order, whose seed it prints and takes as `--seed=N`, and
 * repeats a file that failed alone, in the same order.
 */
import { existsSync, lstatSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join, relative } from "node:path";
import { bunPlatform } from "../../src/base/platform/bun/mod.ts";
import { POSTGRES_ORIGINS } from "../../src/base/version.ts";
import { startRun, stopTestServer } from "./postgres.ts";

/** Two files more than there are cores, since many tests wait. Several tests judge answers within a second. */
const FILES_AT_ONCE = Math.min(6, availableParallelism() + 2);
const TIMINGS = join(import.meta.dir, "timings.json");
const SUITE_FLAGS = ["--no-isolate", `--parallel=${FILES_AT_ONCE}`, `--timings=${TIMINGS}`];
const PROOF_FLAGS = ["--timeout=1200000"];
/** One more than there are cores, since the longest proofs wait for faults, failovers and windows. */
const PROOFS_AT_ONCE = Math.min(4, availableParallelism() + 1);
/** A proof whose result depends on what else the machine does says so in a line below its imports. */
const RUNS_ALONE = /^\/\/ Runs alone\b/m;
/** A proof that takes more than a minute for one promise says so in such a line, too. */
const IS_LONG = /^\/\/ Takes over a minute\b/m;
/** Root runs some of the tests alone or in another way. Each file with such tests names one of these. */
const ASKS_FOR_ROOT = /\bgetuid\b|\bisRoot\("|\bcanActAsBoth\b/;
const ROOT = join(import.meta.dir, "../..");

const beganMs = Date.now();
const postgres = bunPlatform.postgresInside();
const released = postgres?.origin === "package" ? "; make postgres builds the one that is released" : "";
console.log(
  postgres === undefined
    ? "No PostgreSQL inside"
    : `PostgreSQL inside: ${postgres.version}, ${POSTGRES_ORIGINS[postgres.origin]}${released}`,
);
const [first, ...rest] = process.argv.slice(2);
const proves = first === "--proofs";
const shuffles = first === "--any-order";
const isShort = proves && rest.includes("--short");
const patterns = proves
  ? filesNamedBy(
      rest.filter((word) => word !== "--short"),
      "_proof.ts",
    ).filter((word) => !isShort || word.startsWith("-") || !IS_LONG.test(readFileSync(word, "utf8")))
  : shuffles
    ? rest
    : first === "--as-root"
      ? ["--path-ignore-patterns=", ...filesNamedBy(rest, "_test.ts", ASKS_FOR_ROOT)]
      : process.argv.slice(2);
const env = { ...process.env, ...(await startRun({ inMemory: !proves })) };
const status = shuffles
  ? await runInOrder()
  : proves
    ? await runProofs()
    : (await runTests([...SUITE_FLAGS, ...patterns])).status;
await stopTestServer();
removeAbandonedMemory();
if (patterns.length === 0) {
  console.log(
    "Left out: test/compiled, which `make test-executable` runs, test/console, which `make test-console` runs, " +
      "and *_proof.ts, which `make prove` runs",
  );
}
process.exit(status);

/**
 * Runs the tests of each file in one order, and each file that failed again, alone and in the same order. A file whose
 * tests pass then is named at the end: they depend on another file or on the load of the machine.
 */
async function runInOrder(): Promise<number> {
  const given = patterns.find((word) => word.startsWith("--seed="));
  const seed = given ?? `--seed=${crypto.getRandomValues(new Uint32Array(1))[0]}`;
  const others = patterns.filter((word) => word !== given);
  console.log(`Order of the tests; to repeat it: make test-any-order ARGS="${[seed, ...others].join(" ")}"`);
  const order = ["--randomize", seed];
  const { status, failed, counts } = await runTests([...SUITE_FLAGS, ...order, ...others]);
  if (status === 0 || failed.length === 0) return status;
  const notes: string[] = [];
  let fail = 0;
  for (const file of failed) {
    const again = await runTests([...order, `./${file}`]);
    fail += again.counts.fail;
    notes.push(
      again.status === 0
        ? `Failed once, and passed alone: ${file}`
        : `Failed in this order, also alone: bun test ${order.join(" ")} ./${file}`,
    );
  }
  printSums("All tests", { pass: counts.pass + counts.fail - fail, skip: counts.skip, fail });
  console.log(notes.join("\n"));
  return fail === 0 ? 0 : 1;
}

/** Runs the proofs that run alone, then the others. At the end it prints the sums of both runs as `bun test` does. */
async function runProofs(): Promise<number> {
  const flags = [...PROOF_FLAGS, ...patterns.filter((word) => word.startsWith("-"))];
  const files = patterns.filter((word) => !word.startsWith("-"));
  const isAlone = (file: string) => files.length === 1 || RUNS_ALONE.test(readFileSync(file, "utf8"));
  const runs = [
    { flags, files: files.filter(isAlone) },
    {
      flags: [...flags, "--no-isolate", `--parallel=${PROOFS_AT_ONCE}`, `--timings=${TIMINGS}`],
      files: files.filter((file) => !isAlone(file)),
    },
  ].filter(({ files }) => files.length > 0);
  const sums = { pass: 0, skip: 0, fail: 0 };
  let status = 0;
  for (const { flags, files } of runs) {
    const run = await runTests([...flags, ...files]);
    status ||= run.status;
    sums.pass += run.counts.pass;
    sums.skip += run.counts.skip;
    sums.fail += run.counts.fail;
  }
  printSums("All proofs", sums);
  return status;
}

/** Prints the sums of several runs as `bun test` does: `.ci/run` reads the last ones. */
function printSums(title: string, { pass, skip, fail }: Run["counts"]): void {
  console.log(`\n${title}:\n ${pass} pass\n ${skip} skip\n ${fail} fail`);
}

interface Run {
  readonly status: number;
  /** The files with failed tests. */
  readonly failed: readonly string[];
  /** The numbers of the summary. */
  readonly counts: { pass: number; skip: number; fail: number };
}

/** Runs `bun test`, and shows its output. */
async function runTests(args: readonly string[]): Promise<Run> {
  const child = Bun.spawn([process.execPath, "test", ...args], {
    env,
    stdio: ["inherit", "inherit", "pipe"],
  });
  const failed = new Set<string>();
  const counts = { pass: 0, skip: 0, fail: 0 };
  let [file, rest] = ["", ""];
  const decoder = new TextDecoder();
  for await (const chunk of child.stderr ?? []) {
    process.stderr.write(chunk);
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const [, header] = /^(test\/\S+_test\.tsx?):$/.exec(line) ?? [];
      file = header ?? file;
      if (line.startsWith("(fail)") && file !== "") failed.add(file);
      // The summary at the end repeats the failures of all files.
      if (/^\d+ tests? failed:$/.test(line)) file = "";
      const [, number, word] = /^ *(\d+) (pass|skip|fail)$/.exec(line) ?? [];
      if (word !== undefined) counts[word as keyof typeof counts] = Number(number);
    }
  }
  return { status: await child.exited, failed: [...failed], counts };
}

/**
 * Returns the flags among the words, and the paths of the files with this ending whose path contains one of the other
 * words, or any path without such words. If `text` is given, only files that match it.
 */
function filesNamedBy(words: readonly string[], ending: string, text = /(?:)/): string[] {
  const flags = words.filter((word) => word.startsWith("-"));
  const names = words.filter((word) => !word.startsWith("-"));
  const paths = [...new Bun.Glob(`test/**/*${ending}`).scanSync(ROOT)].sort();
  const named = paths
    .filter((path) => names.length === 0 || names.some((name) => `./${path}`.includes(name)))
    .filter((path) => text.test(readFileSync(join(ROOT, path), "utf8")));
  if (named.length === 0) throw new Error(`No file *${ending} is named by ${names.join(" ")}`);
  return [...flags, ...named.map((path) => `./${relative(".", join(ROOT, path))}`)];
}

/**
 * Removes the shared memory of this run's PostgreSQL processes that tests killed, 1 MB each. Leaves that of a user who
 * still runs a PostgreSQL, because its name does not tell to which one it belongs.
 */
function removeAbandonedMemory(): void {
  // Elsewhere than on Linux there are no such folders.
  if (!existsSync("/dev/shm") || !existsSync("/proc")) return;
  const memory = readdirSync("/dev/shm").filter((name) => name.startsWith("PostgreSQL."));
  const found = memory.map((name) => `/dev/shm/${name}`).map((path) => ({ path, ...ownerOf(path) }));
  const processes = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  const running = processes.map((id) => `/proc/${id}/comm`).filter((path) => textOf(path) === "postgres\n");
  const busy = new Set(running.map((path) => ownerOf(path)?.uid));
  const me = process.getuid?.();
  for (const { path, uid, ctimeMs = 0 } of found) {
    if (ctimeMs > beganMs && !busy.has(uid) && (me === 0 || me === uid)) rmSync(path, { force: true });
  }
}

function ownerOf(path: string): { uid: number; ctimeMs: number } | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}

/** Returns the text of a file, or none if its process has just ended. */
function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

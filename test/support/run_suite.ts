/**
 * Runs `bun test` on one PostgreSQL for all test files: `bun test/support/run_suite.ts [--proofs] [PATTERN…]`.
 *
 * Several processes share the test files, and each would start, migrate and stop its own PostgreSQL. This script starts
 * one first, and the files find its address in their environment. A process keeps its modules from file to file, as a
 * bare `bun test` does: loading them anew for each file took 10 s of 185 s.
 * `make test ARGS=--update-timings` measures how long each file takes; the longest files then start first.
 * With `--proofs` it runs the slow proofs instead (`*_proof.ts`), one file after another and on the disk, because
 * a proof measures time.
 */
import { availableParallelism } from "node:os";
import { join, relative } from "node:path";
import { startRun, stopTestServer } from "./postgres.ts";

/** Two files more than there are cores, since many tests wait. Several tests judge answers within a second. */
const FILES_AT_ONCE = Math.min(6, availableParallelism() + 2);
const TIMINGS = join(import.meta.dir, "timings.json");
const SUITE_FLAGS = [
  "--timeout=30000",
  "--no-isolate",
  `--parallel=${FILES_AT_ONCE}`,
  `--timings=${TIMINGS}`,
];
const PROOF_FLAGS = ["--timeout=1200000"];
/** Names each proof file, because Bun by itself finds only `*_test.ts`. */
const PROOFS = new Bun.Glob("test/**/*_proof.ts");

const [first, ...rest] = process.argv.slice(2);
const proves = first === "--proofs";
const patterns = proves ? proofsNamedBy(rest) : process.argv.slice(2);
const child = Bun.spawn([process.execPath, "test", ...(proves ? PROOF_FLAGS : SUITE_FLAGS), ...patterns], {
  env: { ...process.env, ...(await startRun({ inMemory: !proves })) },
  stdio: ["inherit", "inherit", "inherit"],
});
const status = await child.exited;
await stopTestServer();
if (patterns.length === 0) {
  console.log(
    "Left out: test/compiled, which `make test-executable` runs, test/console, which `make test-console` runs, " +
      "and *_proof.ts, which `make prove` runs",
  );
}
process.exit(status);

/** Returns the paths of the proofs whose path contains one of the patterns; without patterns, of all proofs. */
function proofsNamedBy(patterns: readonly string[]): string[] {
  const root = join(import.meta.dir, "../..");
  const paths = [...PROOFS.scanSync(root)].sort().map((path) => `./${relative(".", join(root, path))}`);
  const named = paths.filter((path) => patterns.length === 0 || patterns.some((text) => path.includes(text)));
  if (named.length === 0) throw new Error(`No proof is named by ${patterns.join(" ")}`);
  return named;
}

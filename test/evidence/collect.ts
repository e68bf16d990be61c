/**
 * `make evidence`: runs what stands behind the published figures, and keeps it as one file, from which it makes the
 * tables of the pages. `--only PART` (repeatable) runs a part; the file is written as soon as every part was run on
 * this commit, on this machine. `--quick` is for trying it: short runs, a file in `dist/evidence`, and no tables.
 * `--tables` only makes the tables again. Refuses a checkout with changes.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import packageJson from "../../package.json" with { type: "json" };
import { describeMachine, type Machine } from "../bench/machine.ts";
import { isFailed, type Result } from "../bench/row.ts";
import { type Evidence, type Reports, readEvidence } from "./evidence.ts";
import { EXTENT } from "./extent.ts";
import { writeTables } from "./tables.ts";

const ROOT = join(import.meta.dir, "../..");
const WORK = join(ROOT, "dist/evidence");

interface Part {
  /** What is run, one after another. */
  readonly runs: readonly (readonly string[])[];
  /** What `--quick` runs instead. */
  readonly quick: readonly (readonly string[])[];
  /** The statuses of a complete run. */
  readonly statuses: readonly number[];
}

const SUITE = "test/support/run_suite.ts";
const CRASH_TEST = "test/crash_test/main.ts";
const HOSTILE_INPUT = "test/hostile_input/long_run.ts";
const BENCH = "test/bench/bench.ts";

const PARTS: Readonly<Record<keyof Reports, Part>> = {
  // All that `make prove` and `make prove-upgrade` run.
  proofs: {
    runs: [[SUITE, "--any-order"], [SUITE, "--proofs"], ["test/upgrade/main.ts"]],
    quick: [[SUITE, "--proofs", "test/base/rate_limits/window_table_model_proof.ts"]],
    statuses: [0],
  },
  crash_test: {
    runs: [[CRASH_TEST]],
    quick: [[CRASH_TEST, "--restarts", "4", "--kills", "6"]],
    statuses: [0],
  },
  hostile_input: {
    runs: [[HOSTILE_INPUT]],
    quick: [[HOSTILE_INPUT, "--requests", "5000"]],
    statuses: [0],
  },
  bench: {
    runs: [[BENCH]],
    quick: [[BENCH, "--quick", "--only", "start"]],
    // 1 means that a row misses its target, which is a result, or could not be measured, which is looked at below.
    statuses: [0, 1],
  },
};
const NAMES = Object.keys(PARTS) as (keyof Reports)[];

/** What a part leaves in `dist/evidence`. */
interface Kept {
  readonly machine: Omit<Machine, "host">;
  readonly isQuick: boolean;
  readonly report: unknown;
}

const { values } = parseArgs({
  options: {
    only: { type: "string", multiple: true },
    quick: { type: "boolean", default: false },
    tables: { type: "boolean", default: false },
  },
});

function run(part: keyof Reports, machine: Kept["machine"]): void {
  const { runs, quick, statuses } = PARTS[part];
  const json = join(WORK, `${part}.report.json`);
  rmSync(json, { force: true });
  const output = part === "proofs" ? [] : ["--json", json];
  for (const args of values.quick ? quick : runs) {
    const env = { ...process.env, COLLECTING_EVIDENCE: "yes" };
    const { status } = spawnSync(process.execPath, [...args, ...output], {
      cwd: ROOT,
      env,
      stdio: "inherit",
    });
    if (status === null || !statuses.includes(status))
      throw new Error(`${part} ended with ${status}: ${args.join(" ")}`);
  }
  const report = part === "proofs" ? { extent: EXTENT } : JSON.parse(readFileSync(json, "utf8"));
  const failed: Result[] = part === "bench" ? report.rows.filter(isFailed) : [];
  if (failed.length > 0)
    throw new Error(`bench did not measure ${failed.map(({ name }) => name).join(", ")}`);
  // The proofs and the hostile input run from this checkout, which can change meanwhile.
  const now = describeMachine(new Date());
  if (now.commit !== machine.commit) throw new Error(`The checkout is ${now.commit} since ${part} began`);
  const kept: Kept = { machine, isQuick: values.quick, report };
  writeFileSync(join(WORK, `${part}.json`), JSON.stringify(kept));
}

/** Puts the parts together; returns the names of those that are missing, or of another commit or machine. */
function assemble(machine: Kept["machine"]): Evidence | readonly string[] {
  const sameAs = ({ date: _, ...rest }: Kept["machine"]) => JSON.stringify(rest);
  const kept = new Map<string, Kept>();
  for (const name of NAMES) {
    const file = join(WORK, `${name}.json`);
    if (existsSync(file)) kept.set(name, JSON.parse(readFileSync(file, "utf8")));
  }
  const missing = NAMES.filter((name) => {
    const part = kept.get(name);
    return part?.isQuick !== values.quick || sameAs(part.machine) !== sameAs(machine);
  });
  if (missing.length > 0) return missing;
  const reports = Object.fromEntries([...kept].map(([name, { report }]) => [name, report]));
  return {
    version: packageJson.version,
    isQuick: values.quick,
    machine,
    reports: reports as unknown as Reports,
  };
}

function main(): number {
  if (values.tables) {
    const evidence = readEvidence();
    if (evidence !== undefined) writeTables(evidence);
    return evidence === undefined ? 1 : 0;
  }
  const wanted = values.only ?? NAMES;
  const unknown = wanted.filter((name) => !(name in PARTS));
  if (unknown.length > 0) {
    console.error(`There is no part ${unknown.join(", ")}; there are ${NAMES.join(", ")}`);
    return 2;
  }
  const changes = spawnSync("git", ["status", "--porcelain"], { cwd: ROOT, encoding: "utf8" });
  if (changes.status !== 0 || changes.stdout !== "") {
    console.error(`Cannot collect evidence of a checkout with changes:\n${changes.stdout || changes.stderr}`);
    return 2;
  }
  const { host: _, ...machine } = describeMachine(new Date());
  mkdirSync(WORK, { recursive: true });
  // With the PostgreSQL of a release.
  for (const build of ["src/build/postgres.ts", "src/build/executable.ts"]) {
    if (spawnSync(process.execPath, [build], { cwd: ROOT, stdio: "inherit" }).status !== 0) return 1;
  }
  for (const name of NAMES) if (wanted.includes(name)) run(name, machine);

  const evidence = assemble(machine);
  if (!("reports" in evidence)) {
    console.log(`Still to run on ${machine.commit}: ${evidence.join(", ")}`);
    return 0;
  }
  const folder = values.quick ? WORK : import.meta.dir;
  const file = join(folder, `${evidence.version}.json`);
  writeFileSync(file, `${JSON.stringify(evidence, null, 2)}\n`);
  if (!values.quick) writeTables(evidence);
  console.log(`Wrote ${file}${values.quick ? "" : " and the tables of the pages"}`);
  return 0;
}

process.exit(main());

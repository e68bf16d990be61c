/**
 * `make crash-test`: runs hundreds of faults under load, and checks every promise after each fault. At the first broken
 * promise it ends with status 1 and keeps the evidence.
 */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { describeMachine, renderMachine } from "../bench/machine.ts";
import { testFolder } from "../support/postgres.ts";
import { createRandom } from "../support/random.ts";
import type { Fault } from "./faults.ts";
import { planLong, SHORT_PLAN } from "./plan.ts";
import { findProgram } from "./program.ts";
import { type Report, renderTable, summarise } from "./report.ts";
import { PromiseBroken, type RoundResult } from "./round.ts";
import { runParts } from "./run_parts.ts";
import { whyNoSmallDisk } from "./small_disk.ts";
import type { Stage } from "./stage.ts";

const USAGE = `usage: bun test/crash_test/main.ts [--restarts N] [--kills N] [--seed N] [--json FILE]
                                [--short] [--stage external|embedded|small_disk] [--from-source]
`;

const { values } = parseArgs({
  options: {
    restarts: { type: "string", default: "200" },
    kills: { type: "string", default: "300" },
    seed: { type: "string" },
    json: { type: "string" },
    short: { type: "boolean", default: false },
    stage: { type: "string" },
    "from-source": { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(USAGE);
  process.exit(0);
}

const seed = toWhole("seed", values.seed ?? String(Date.now() % 2 ** 32));
const wanted = { restarts: toWhole("restarts", values.restarts), kills: toWhole("kills", values.kills) };
const random = createRandom(seed);
const program = findProgram({ fromSource: values["from-source"] });
const folder = mkdtempSync(join(testFolder(), "crash-test-"));
chmodSync(folder, 0o755);
const beganMs = performance.now();
const results: RoundResult[] = [];
const counts = { rounds: 0, restarts: 0, kills: 0 };
let stage: Stage | undefined;
let present: Fault | undefined;
let interruption: Promise<never> | undefined;
let isOver = false;

const whyNoDisk = whyNoSmallDisk(folder);
if (whyNoDisk !== undefined) console.log(`Skipped filling a disk: ${whyNoDisk}`);
const parts = (values.short ? SHORT_PLAN : planLong(wanted, random)).filter(
  (part) =>
    (values.stage === undefined || part.stage === values.stage) &&
    (part.stage !== "small_disk" || whyNoDisk === undefined),
);

console.log(`Testing ${program.name} with seed ${seed}; logs are in ${folder}`);
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
  process.once(signal, () => (interruption ??= interrupt(signal)));

let failure: unknown;
try {
  await runParts(parts, {
    ...{ folder, program, random, onRound: note, isInterrupted: () => interruption !== undefined },
    onStage: (next) => {
      stage = next;
    },
  });
} catch (error) {
  failure = error;
}
isOver = true;
// An interruption makes the running round fail; that failure is not a finding.
await interruption;
if (failure !== undefined) {
  keepEvidence(failure);
  process.exit(1);
}
finish("held");
rmSync(folder, { recursive: true, force: true });
process.exit(0);

function keepEvidence(error: unknown): void {
  const violations = error instanceof PromiseBroken ? error.violations : [];
  const evidence = join(folder, "evidence.json");
  const what = { seed, round: counts.rounds, fault: present, error: String(error), violations };
  writeFileSync(evidence, `${JSON.stringify(what, null, 2)}\n`);
  finish("broken");
  console.error(`\nBROKEN in round ${counts.rounds} (${present?.stage}, ${present?.kind}): ${error}`);
  for (const { promise, evidence: shown } of violations.slice(0, 5)) {
    console.error(`  ${promise}: ${JSON.stringify(shown).slice(0, 600)}`);
  }
  if (!(error instanceof PromiseBroken)) console.error(error);
  console.error(`Seed ${seed}; the evidence is in ${evidence}, the logs beside it`);
}

/** Prints the counts so far, one line for every round. */
function note(fault: Fault, result: RoundResult | undefined): void {
  present = fault;
  if (result === undefined) {
    counts.rounds++;
    return;
  }
  counts.restarts += fault.restarts;
  counts.kills += fault.kills;
  results.push(result);
  const { figures, resources } = result;
  const seconds = Math.round((performance.now() - beganMs) / 1_000);
  console.log(
    [
      `${String(seconds).padStart(5)} s  round ${counts.rounds}  restarts ${counts.restarts}  kills ${counts.kills}`,
      `${fault.stage}: ${fault.kind}${fault.detail === undefined ? "" : ` at ${fault.detail}`}`,
      `healthy ${Math.round(result.healthyMs)} ms, serving ${Math.round(result.servingMs)} ms`,
      `slowest answer ${Math.round(figures.slowestAnswerMs)} ms, ${figures.acknowledged} events`,
      `${resources?.descriptors} fds, ${Math.round(resources?.residentMb ?? 0)} MB, ${Math.round(resources?.grownMb ?? 0)} MB grown`,
    ].join("  |  "),
  );
}

function finish(outcome: Report["outcome"]): void {
  const report = summarise(results, {
    ...{ outcome, seed, program: program.name, counts },
    tookMs: performance.now() - beganMs,
    machine: renderMachine(describeMachine(new Date())),
  });
  console.log(`\n${renderTable(report)}`);
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(report, null, 2)}\n`);
}

/** Ends the stage under the running round, prints the results so far, and exits. */
async function interrupt(signal: string): Promise<never> {
  console.error(`\n${signal}: ending all processes that were started`);
  // A stage that is being created can be ended only after it is complete.
  while (stage === undefined && !isOver) await Bun.sleep(20);
  await stage?.end().catch((error: unknown) => console.error(error));
  finish("interrupted");
  rmSync(folder, { recursive: true, force: true });
  return process.exit(130);
}

function toWhole(name: string, text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 0) return value;
  console.error(`Cannot run the crash test: --${name} must be a whole number\n${USAGE}`);
  return process.exit(2);
}

/** The tables of README.md, `bench/README.md` and `crash_test/README.md`, made from the evidence. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { renderMachine } from "../bench/machine.ts";
import { figuresOf, inOrder, toCount } from "../bench/table.ts";
import { renderTable } from "../crash_test/report.ts";
import type { Evidence } from "./evidence.ts";

const ROOT = join(import.meta.dir, "../..");
export const PAGES = ["README.md", "test/bench/README.md", "test/crash_test/README.md"];
/** A part of a page that is made from the evidence, with its name. */
const BLOCK = /(<!-- evidence: (\w+) -->\n\n).*?(\n\n<!-- end of evidence -->)/gs;

/** Returns a page with its blocks made from the evidence. */
export function withEvidence(page: string, evidence: Evidence): string {
  return page.replaceAll(BLOCK, (_, before: string, name: string, after: string) => {
    const render = BLOCKS[name];
    if (render === undefined) throw new Error(`There is no evidence with the name ${name}`);
    return `${before}${render(evidence)}${after}`;
  });
}

export function writeTables(evidence: Evidence): void {
  for (const path of PAGES) {
    const file = join(ROOT, path);
    writeFileSync(file, withEvidence(readFileSync(file, "utf8"), evidence));
  }
}

const BLOCKS: Readonly<Record<string, (evidence: Evidence) => string>> = {
  guarantees: renderGuarantees,
  bench: renderBench,
  crash_test: ({ reports }) => renderTable(reports.crash_test),
  hostile_input: renderHostileInput,
};

function renderRows(heading: readonly string[], rows: readonly (readonly string[])[]): string {
  return [heading, heading.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

function renderGuarantees({ machine, reports: { crash_test: crash, hostile_input } }: Evidence): string {
  const rows = [
    [
      "A revoked key is refused, in every process within a second",
      "2,000 revocations raced by requests at two services, none late",
      "`test/several_processes/revocation_race_proof.ts`",
    ],
    [
      "A monthly quota is never exceeded",
      "8 clients at each of 2 processes: exactly the quota",
      "`test/several_processes/quota_test.ts`",
    ],
    [
      "A key never gets more requests than its limit in any 60 seconds, per process",
      "300,000 random sequences of commands against a simple model",
      "`test/limits/window_table_model_proof.ts`",
    ],
    [
      "An acknowledged event is stored and counted once, through `kill -9` of service and database",
      `${toCount(crash.counts.rounds)} faults, ${toCount(crash.acknowledged)} events, none lost`,
      "`make crash-test`",
    ],
    [
      "Every answer comes within 5 seconds, whatever the database does",
      `the slowest of ${toCount(crash.requests)} took ${(crash.slowestAnswerMs / 1_000).toFixed(2)} s`,
      "`make crash-test`",
    ],
    [
      "No request makes the service fail, and no key or token appears in logs or tables",
      `${toCount(hostile_input.requests)} generated requests, no 500`,
      "`make hostile-input`",
    ],
  ];
  const about = `The figures are of ${machine.commit.slice(0, 7)}, on ${machine.date.slice(0, 10)}: ${machine.cores} cores of ${machine.cpu}, ${(machine.memoryMb / 1_000).toFixed(0)} GB.`;
  return `${about}\n\n${renderRows(["Guarantee", "Measured", "Shown by"], rows)}`;
}

function renderBench({ machine, reports: { bench } }: Evidence): string {
  const rows = inOrder(bench.rows).map((row) => {
    const [figure = "", target = "", verdict = "", rounds = ""] = figuresOf(row);
    return [row.name, figure, target, verdict === "NO" ? "**short**" : verdict, rounds];
  });
  const disturbed =
    bench.disturbed === 0 ? "" : ` In ${bench.disturbed} rounds other processes used the cores.`;
  const heading = ["What", "Figure", "Target", "Met", "Rounds: least to most"];
  return `${renderMachine(machine)}.${disturbed}\n\n${renderRows(heading, rows)}`;
}

function renderHostileInput({ machine, reports: { hostile_input: run } }: Evidence): string {
  const row = [
    `${machine.commit.slice(0, 7)}, ${machine.cpu}, ${machine.cores} cores, ${run.seed}`,
    toCount(run.requests),
    `${run.seconds} s`,
    run.failure === undefined ? "0" : "**1**",
    `${run.slowestMs} ms`,
    `0 of ${toCount(run.secrets.known)}`,
  ];
  const heading = [
    "Commit, machine, seed",
    "Requests",
    "Took",
    "Failed, hung, or left a trace though refused",
    "Slowest answer",
    "Secrets found, of those looked for",
  ];
  const { NOT_CONFIGURED: without = 0 } = run.codes;
  return `${renderRows(heading, [row])}\n\n${toCount(without)} of these requests were answered 503 \`NOT_CONFIGURED\`, because no repository token was set; the contract\nrequires this answer.`;
}

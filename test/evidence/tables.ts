/** The tables of README.md, `bench/README.md` and `crash_test/README.md`, made from the evidence. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { renderMachine } from "../bench/machine.ts";
import { isFailed, type Result, type Row } from "../bench/row.ts";
import { GROUPS } from "../bench/row_groups.ts";
import type { ListDetail } from "../bench/rows/admin.ts";
import type { CostDetail } from "../bench/rows/event_cost.ts";
import { figuresOf, inOrder, toCount, toText } from "../bench/table.ts";
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

/** Returns what to do if the front page has the figures of another minor version than this one; undefined if not. */
export function refuseOldFigures(frontPage: string, version: string): string | undefined {
  const [, shown = "no version"] = /^The figures are of version (\S+),/m.exec(frontPage) ?? [];
  const minorOf = (text: string) => text.split(".", 2).join(".");
  return minorOf(shown) === minorOf(version)
    ? undefined
    : `README.md has the figures of ${shown}, and this is ${version}: run make evidence on a quiet machine, and commit what it writes`;
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
  event_cost: renderEventCost,
  lists: renderLists,
  crash_test: ({ reports }) => renderTable(reports.crash_test),
  hostile_input: renderHostileInput,
};

function renderRows(heading: readonly string[], rows: readonly (readonly string[])[]): string {
  return [heading, heading.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

function renderGuarantees({
  version,
  machine,
  reports: { proofs, crash_test: crash, hostile_input },
}: Evidence): string {
  const { revocations, quotaProcesses, quotaClients, windowSequences } = proofs.extent;
  const rows = [
    [
      "A revoked key is refused, in every process within a second",
      `${toCount(revocations)} revocations raced by requests at two services, none late`,
      "`test/several_processes/revocation_race_proof.ts`",
    ],
    [
      "A monthly quota is never exceeded",
      `${quotaClients} clients at each of ${quotaProcesses} processes: exactly the quota`,
      "`test/several_processes/quota_test.ts`",
    ],
    [
      "A key never gets more requests than its limit in any 60 seconds, per process",
      `${toCount(windowSequences)} random sequences of commands against a simple model`,
      "`test/base/rate_limits/window_table_model_proof.ts`",
    ],
    [
      "An acknowledged event is stored and counted once, through `kill -9` of service and database; beyond 50 MB of texts a day, a license's events are stored without texts",
      `${toSaid(crash.counts.rounds)} faults, ${toSaid(crash.acknowledged)} events, none lost`,
      "`make crash-test`",
    ],
    [
      "Every answer comes within 5 seconds, whatever the database does",
      `the slowest of ${toSaid(crash.requests)} took ${(crash.slowestAnswerMs / 1_000).toFixed(1)} s`,
      "`make crash-test`",
    ],
    [
      "No request makes the service fail, and no key or token appears in logs or tables",
      `${toSaid(hostile_input.requests)} generated requests, no 500`,
      "`make hostile-input`",
    ],
  ];
  const about = `The figures are of version ${version}, commit ${machine.commit.slice(0, 7)}, on ${machine.date.slice(0, 10)}: ${machine.cores} cores of ${machine.cpu}, ${(machine.memoryMb / 1_000).toFixed(0)} GB.`;
  return `${about}\n\n${renderRows(["Guarantee", "Measured", "Shown by"], rows)}`;
}

/** Renders a number as a person would say it: `some 280,000` for 279,984. */
function toSaid(count: number): string {
  const rounded = Number(count.toPrecision(2));
  return `${rounded === count ? "" : "some "}${toCount(rounded)}`;
}

/** Figure, target, verdict and rounds of a row. */
function cellsOf(row: Result): string[] {
  return figuresOf(row).map((text) => (text === "NO" ? "**short**" : text));
}

function renderBench({ machine, reports: { bench } }: Evidence): string {
  // A kept run may have rows that the bench does not have any more.
  const names = new Set(GROUPS.flatMap((group) => group.rows));
  const measured = bench.rows.filter(({ name }) => names.has(name));
  const rows = inOrder(measured).map((row) => [row.name, ...cellsOf(row)]);
  const disturbed =
    bench.disturbed === 0 ? "" : ` In ${bench.disturbed} rounds other processes used the cores.`;
  const heading = ["What", "Figure", "Target", "Met", "Rounds: least to most"];
  return `${renderMachine(machine)}.${disturbed}\n\n${renderRows(heading, rows)}`;
}

/** Returns the measured rows whose names begin like this; throws if there are none. */
function rowsOf({ reports }: Evidence, prefix: string): Row[] {
  const rows = reports.bench.rows.flatMap((row) =>
    isFailed(row) || !row.name.startsWith(prefix) ? [] : [row],
  );
  if (rows.length === 0) throw new Error(`The evidence has no row of ${prefix}`);
  return rows;
}

function detailOf<Name extends string>({ name, details }: Row, detail: Name): number {
  const value = details[detail];
  // JSON has null for a figure that is no number.
  if (typeof value !== "number") throw new Error(`The row ${name} of the evidence has no ${detail}`);
  return value;
}

/** Each part of the cost of an event, from the measured ones. */
const COST_PARTS: Readonly<Record<string, (us: (detail: CostDetail) => number) => number>> = {
  "**Service**": (us) => us("µs of the service"),
  "bare echo (floor)": (us) => us("µs of the echo"),
  "client of the statement: arrays, driver, result": (us) => us("µs of a client, commits alone"),
  "what is left of the service": (us) =>
    us("µs of the service") - us("µs of the echo") - us("µs of a client, commits alone"),
  "**PostgreSQL**": (us) => us("µs of PostgreSQL"),
  "rows alone (floor)": (us) => us("µs of PostgreSQL, rows alone"),
  "the rest of the statement": (us) =>
    us("µs of PostgreSQL, commits alone") - us("µs of PostgreSQL, rows alone"),
  "what is left of PostgreSQL": (us) => us("µs of PostgreSQL") - us("µs of PostgreSQL, commits alone"),
};

function renderEventCost(evidence: Evidence): string {
  const rows = rowsOf(evidence, "event cost, ");
  const cells = (render: (us: (detail: CostDetail) => number) => string) =>
    rows.map((row) => render((detail) => detailOf<CostDetail>(row, detail)));
  const heading = ["Part", ...rows.map(({ name }) => name.slice("event cost, ".length))];
  const statements = cells((us) => us("events a statement").toFixed(0));
  const parts = Object.entries(COST_PARTS).map(([part, of]) => [
    part,
    ...cells((us) => `${of(us).toFixed(1)} µs`),
  ]);
  return renderRows(heading, [["Events in a statement", ...statements], ...parts]);
}

function renderLists(evidence: Evidence): string {
  const rows = rowsOf(evidence, "lists, ").map((row) => {
    const detail = (name: ListDetail) => detailOf(row, name);
    const list = row.name.replace(/^lists, (.*), p95$/, "$1");
    return [list, toCount(detail("requests a round")), toText(detail("p50 ms"), "ms"), ...cellsOf(row)];
  });
  return renderRows(
    ["List", "Requests", "p50", "p95", "Target for p95", "Met", "Rounds: least to most p95"],
    rows,
  );
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

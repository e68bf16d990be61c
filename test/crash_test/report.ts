/**
 * Makes the results of a run into JSON, which a later run can be compared with, and into a table for
 * people.
 */
import type { Figures } from "./ledger.ts";
import type { RoundResult } from "./round.ts";

export interface Counts {
  readonly rounds: number;
  readonly restarts: number;
  readonly kills: number;
}

export interface KindFigures {
  readonly stage: string;
  readonly kind: string;
  readonly rounds: number;
  readonly slowestAnswerMs: number;
  readonly healthyMs: { readonly median: number; readonly worst: number };
  readonly servingMs: { readonly median: number; readonly worst: number };
  /** The share of these rounds' requests that got a 503 or no answer. */
  readonly refused: number;
}

export interface Report {
  readonly outcome: "held" | "broken" | "interrupted";
  readonly seed: number;
  readonly machine: string;
  readonly program: string;
  readonly tookSeconds: number;
  readonly counts: Counts;
  readonly requests: number;
  readonly answers: Readonly<Record<string, number>>;
  readonly withoutAnswer: number;
  readonly acknowledged: number;
  readonly slowestAnswerMs: number;
  readonly descriptors: { readonly first: number; readonly last: number; readonly most: number };
  readonly residentMb: { readonly first: number; readonly last: number; readonly most: number };
  readonly kinds: readonly KindFigures[];
}

export interface SummaryOptions {
  readonly outcome: Report["outcome"];
  readonly seed: number;
  readonly machine: string;
  readonly program: string;
  readonly tookMs: number;
  readonly counts: Counts;
}

export function summarise(results: readonly RoundResult[], options: SummaryOptions): Report {
  const { tookMs, counts, ...identity } = options;
  const kinds = Map.groupBy(results, ({ stage, kind }) => `${stage} ${kind}`);
  const figures = results.map((result) => result.figures);
  const resources = results.flatMap((result) => result.resources ?? []);
  return {
    ...identity,
    tookSeconds: Math.round(tookMs / 1_000),
    counts: { ...counts },
    requests: sum(figures.map(({ requests }) => requests)),
    answers: answersOf(figures),
    withoutAnswer: sum(figures.map(({ withoutAnswer }) => withoutAnswer)),
    acknowledged: sum(figures.map(({ acknowledged }) => acknowledged)),
    slowestAnswerMs: worst(figures.map(({ slowestAnswerMs }) => slowestAnswerMs)),
    descriptors: spread(resources.map(({ descriptors }) => descriptors)),
    residentMb: spread(resources.map(({ residentMb }) => Math.round(residentMb))),
    kinds: [...kinds.values()].map(toKind),
  };
}

function toKind(results: readonly RoundResult[]): KindFigures {
  const figures = results.map((result) => result.figures);
  const refused = sum(figures.map(({ answers, withoutAnswer }) => (answers[503] ?? 0) + withoutAnswer));
  return {
    stage: results[0]?.stage ?? "",
    kind: results[0]?.kind ?? "",
    rounds: results.length,
    slowestAnswerMs: worst(figures.map(({ slowestAnswerMs }) => slowestAnswerMs)),
    healthyMs: middle(results.map(({ healthyMs }) => healthyMs)),
    servingMs: middle(results.map(({ servingMs }) => servingMs)),
    refused:
      Math.round((refused / Math.max(1, sum(figures.map(({ requests }) => requests)))) * 1_000) / 1_000,
  };
}

function answersOf(figures: readonly Figures[]): Record<string, number> {
  const answers: Record<string, number> = {};
  for (const one of figures) {
    for (const [status, count] of Object.entries(one.answers))
      answers[status] = (answers[status] ?? 0) + count;
  }
  return answers;
}

function sum(values: readonly number[]): number {
  return values.reduce((all, value) => all + value, 0);
}

function worst(values: readonly number[]): number {
  return Math.round(Math.max(0, ...values));
}

function middle(values: readonly number[]): { median: number; worst: number } {
  const sorted = values.toSorted((a, b) => a - b);
  return { median: Math.round(sorted[Math.floor(sorted.length / 2)] ?? 0), worst: worst(values) };
}

function spread(values: readonly number[]): { first: number; last: number; most: number } {
  return { first: values[0] ?? 0, last: values.at(-1) ?? 0, most: worst(values) };
}

/** Renders the report as the Markdown table of the README. */
export function renderTable(report: Report): string {
  const { counts, answers, descriptors, residentMb } = report;
  const statuses = Object.entries(answers).map(([status, count]) => `${status}: ${count}`);
  const rows = report.kinds.map((kind) => [
    `${kind.stage}: ${kind.kind}`,
    String(kind.rounds),
    `${kind.slowestAnswerMs} ms`,
    `${kind.healthyMs.median} / ${kind.healthyMs.worst} ms`,
    `${kind.servingMs.median} / ${kind.servingMs.worst} ms`,
    `${(kind.refused * 100).toFixed(1)} %`,
  ]);
  return [
    `${report.outcome}: ${counts.rounds} rounds, ${counts.restarts} database restarts, ${counts.kills} kills in ${report.tookSeconds} s`,
    `seed ${report.seed}, ${report.program}, ${report.machine}`,
    `${report.requests} requests (${statuses.join(", ")}; ${report.withoutAnswer} while the service was down), ` +
      `${report.acknowledged} events acknowledged, slowest answer ${report.slowestAnswerMs} ms`,
    `descriptors without those for clients' connections ${descriptors.first} at first, ${descriptors.last} at last, ${descriptors.most} at most; ` +
      `memory ${residentMb.first}, ${residentMb.last}, ${residentMb.most} MB`,
    "",
    "| Fault | Rounds | Slowest answer (≤ 5,000 ms) | Healthy again, median / worst (≤ 2,000 ms) | Validating and taking events again (≤ 4,000 ms) | Refused meanwhile |",
    "|---|---|---|---|---|---|",
    ...rows.map((row) => `| ${row.join(" | ")} |`),
  ].join("\n");
}

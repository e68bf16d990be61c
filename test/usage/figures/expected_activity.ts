/** The tables that the page Activity must have, made from the answers that the clients got. */
import { nameOfCode, nameOfEndpoint } from "../../../src/wire/mod.ts";
import type { Tables } from "../../support/page_tables.ts";
import type { Answers } from "./simulated_days.ts";

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

const text = (count: number) => count.toLocaleString("en-US");

export type ActivityName = "code" | "endpoint" | "reason";
export type ActivityStep = "hour" | "day" | "month";

interface Count {
  readonly at: Date;
  readonly name: string;
  readonly count: number;
}

/** Returns the counts by hour and name, in this order; by reason, only those with one. */
export function countsBy(
  by: ActivityName,
  answers: readonly Answers[],
  step: ActivityStep = "hour",
): Count[] {
  const counts = new Map<string, Count>();
  for (const answer of answers) {
    const name = answer[by];
    const at = beginOf(answer.at, step);
    const id = `${at.toISOString()} ${name}`;
    if (name !== "") counts.set(id, { at, name, count: answer.count + (counts.get(id)?.count ?? 0) });
  }
  return [...counts].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, count]) => count);
}

/** Returns the sum of each name, in the order in which the names come first. */
export function sumsOf(counts: readonly Count[]): [name: string, count: number][] {
  const sums = new Map<string, number>();
  for (const { name, count } of counts) sums.set(name, (sums.get(name) ?? 0) + count);
  return [...sums];
}

/** Returns the beginning of the hour, day or month, or of one so many before. */
function beginOf(at: Date, step: ActivityStep, back = 0): Date {
  if (step === "hour") return new Date(at.getTime() - (at.getTime() % HOUR_MS) - back * HOUR_MS);
  if (step === "day") return new Date(at.getTime() - (at.getTime() % DAY_MS) - back * DAY_MS);
  return new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() - back));
}

export interface ActivityCounts {
  readonly by: ActivityName;
  readonly step: ActivityStep;
  readonly to: Date;
  readonly now: Date;
  readonly answers: readonly Answers[];
}

const STEPS = { hour: 24, day: 30, month: 13 } as const;
const LABELS = { code: "Cause", endpoint: "Request", reason: "Reason" } as const;
const COLUMNS = { hour: "Hour", day: "Day", month: "Month" } as const;

/** Returns the first instant on a page of the activity that ends at an instant. */
export function beginOfPage(to: Date, step: ActivityStep): Date {
  return beginOf(new Date(to.getTime() - 1), step, STEPS[step] - 1);
}

export function activityTables(page: ActivityCounts): Tables {
  const { by, step, to, now, answers } = page;
  const columns: Date[] = [];
  for (let at = beginOfPage(to, step); at < to; at = beginOf(at, step, -1)) columns.push(at);
  const counts = countsBy(by, answers, step).filter(({ at }) => at < to);
  const unusual = step === "hour" ? findUnusual(counts, { ...page, columns }) : [];
  const chart = (caption: string, has: (name: string) => boolean): Tables => {
    const ofChart = counts.filter(({ at, name }) => columns[0] && at >= columns[0] && has(name));
    const names = sumsOf(ofChart)
      .sort(([, one], [, other]) => other - one)
      .map(([name]) => name);
    const parts = names.length > 6 ? [...names.slice(0, 5), "all others"] : names;
    if (parts.length === 0) return {};
    const rows = columns.map((at, index) => {
      const ofColumn = ofChart.filter((row) => row.at.getTime() === at.getTime());
      const sum = (of: readonly Count[]) => text(of.reduce((all, { count }) => all + count, 0));
      const isOf = (part: string, name: string) =>
        part === name || (part === "all others" && names.indexOf(name) >= 5);
      const mark = unusual.find((row) => has(row.name) && row.at.getTime() === at.getTime())?.kind;
      const values = parts.map((part) => sum(ofColumn.filter(({ name }) => isOf(part, name))));
      return [
        `${labelOf(at, step)}${to === now && index === columns.length - 1 ? ", not over" : ""} ${mark ?? ""}`.trim(),
        ...values,
        ...(parts.length > 1 ? [sum(ofColumn)] : []),
      ];
    });
    const heading = parts.map((part) =>
      part === "OK" ? "Answers" : part === "all others" ? part : nameOf(part, by),
    );
    if (parts.length > 1) heading.push("All");
    return { [caption]: [[COLUMNS[step], ...heading], ...rows.toReversed()] };
  };
  const marks = unusual
    .slice(0, 50)
    .map(({ at, name, count, kind, lowest, highest }) => [
      at.toISOString().slice(0, 16).replace("T", " "),
      by === "code" ? `${nameOf(name, by)} ${name}` : nameOf(name, by),
      ...[text(count), kind],
      lowest === highest ? text(lowest) : `${text(lowest)} to ${text(highest)}`,
      kind === "high" ? (REFUSED[name] ?? "") : "",
    ]);
  return {
    ...(marks.length > 0 && {
      "Unusual hours, the latest first": [
        ["Hour", LABELS[by], "Answers", "Mark", "28 days before", "Refused keys"],
        ...marks,
      ],
    }),
    ...(by === "endpoint" && chart("Answers, by request", () => true)),
    ...(by === "reason" && chart("Refused keys, by reason", () => true)),
    ...(by === "code" && chart("Answers without an error", (name) => name === "OK")),
    ...(by === "code" && chart("Refused and failed requests, by cause", (name) => name !== "OK")),
  };
}

/** The lists to which unusually many refusals lead: this load is counted without its keys. */
const REFUSED: Readonly<Record<string, string>> = {
  RATE_LIMIT_EXCEEDED: "Keys refused now",
  QUOTA_EXCEEDED: "Keys refused now",
  KEY_EXPIRED: "Expired keys",
  MACHINE_LIMIT_REACHED: "Keys with all places taken",
  INVALID_KEY: "Activity by reason",
  expired: "Expired keys",
  suspended: "Suspended keys",
  revoked: "Revoked keys",
};

/** The words of the page for a code, an endpoint or a reason. */
function nameOf(name: string, by: ActivityName): string {
  if (by === "endpoint") return nameOfEndpoint(name);
  return name === "OK" ? "without an error" : nameOfCode(name);
}

function labelOf(at: Date, step: ActivityStep): string {
  const iso = at.toISOString();
  return step === "hour" ? iso.slice(5, 16).replace("T", " ") : iso.slice(0, step === "day" ? 10 : 7);
}

/** The counts of the hours that differ by 20 from all of the four weeks before, and by the factor of two. */
function findUnusual(
  counts: readonly Count[],
  { columns, answers, now }: ActivityCounts & { columns: readonly Date[] },
) {
  const firstMs = Math.min(...answers.map(({ at }) => at.getTime()));
  const earliest = (columns[0]?.getTime() ?? 0) - 28 * DAY_MS;
  const names = sumsOf(counts.filter(({ at }) => at.getTime() >= earliest)).map(([name]) => name);
  const countOf = (name: string, atMs: number) =>
    counts.find((row) => row.name === name && row.at.getTime() === atMs)?.count ?? 0;
  const found = names.flatMap((name) =>
    columns.flatMap((at) => {
      const count = countOf(name, at.getTime());
      const before = Array.from({ length: 28 }, (_, day) => at.getTime() - (day + 1) * DAY_MS)
        .filter((atMs) => atMs >= firstMs)
        .map((atMs) => countOf(name, atMs));
      if (before.length === 0) return [];
      const [lowest, highest] = [Math.min(...before), Math.max(...before)];
      const isOver = now.getTime() - at.getTime() >= HOUR_MS + 120_000;
      if (count >= highest + 20 && count > 2 * highest)
        return [{ at, name, count, kind: "high", lowest, highest }];
      if (isOver && count <= lowest - 20 && count < lowest / 2)
        return [{ at, name, count, kind: "low", lowest, highest }];
      return [];
    }),
  );
  return found.sort((one, other) => other.at.getTime() - one.at.getTime());
}

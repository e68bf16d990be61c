/** What a benchmark says: one figure with its rounds, its target and what it was measured on. */
import { median } from "./statistics.ts";

/** A bound that the figure must keep; the value itself keeps it. */
export interface Target {
  readonly bound: "at least" | "at most" | "more than";
  readonly value: number;
}

export interface Row {
  /** What `--only` and a comparison know it by. */
  readonly name: string;
  /** The median of the rounds. */
  readonly figure: number;
  /** `×` for a ratio: these alone say something on another machine. */
  readonly unit: Unit;
  /** Whether more of it is better: a comparison has to know. */
  readonly better: "more" | "less";
  readonly rounds: readonly number[];
  /** Absent for what is only to be known. */
  readonly target?: Target;
  /** What was measured, against what, and the absolute figures behind a ratio. */
  readonly note: string;
  /** Everything else that somebody may ask for, by name. */
  readonly details: Readonly<Record<string, number>>;
}

export type Unit = "×" | "/s" | "s" | "ms" | "µs" | "MB" | "share";

/** A row that could not be measured, with the reason: it falls short. */
export interface FailedRow {
  readonly name: string;
  readonly failure: string;
}

export type Result = Row | FailedRow;

export function isFailed(result: Result): result is FailedRow {
  return "failure" in result;
}

/** Makes a row of its rounds. */
export function toRow(row: Omit<Row, "figure">): Row {
  return { ...row, figure: median(row.rounds) };
}

/** True where the row keeps its target, undefined where it has none. What is no number keeps none. */
export function isMet(result: Result): boolean | undefined {
  if (isFailed(result)) return false;
  const { figure, target } = result;
  if (target === undefined) return Number.isFinite(figure) ? undefined : false;
  switch (target.bound) {
    case "at least":
      return figure >= target.value;
    case "at most":
      return figure <= target.value;
    case "more than":
      return figure > target.value;
  }
}

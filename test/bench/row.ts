/** A row of a benchmark's results: one figure with its rounds, its target and a note on the measurement. */
import { median } from "./statistics.ts";

/** A bound for the figure. The value itself is within the bound. */
export interface Target {
  readonly bound: "at least" | "at most";
  readonly value: number;
}

export interface Row {
  /** The name for `--only` and for comparisons. */
  readonly name: string;
  /** The median of the rounds. */
  readonly figure: number;
  /** `×` for a ratio. Only ratios mean something on another machine. */
  readonly unit: Unit;
  /** Whether more is better or less; a comparison needs this. */
  readonly better: "more" | "less";
  readonly rounds: readonly number[];
  /** Absent if the figure is only for information. */
  readonly target?: Target;
  /** A note: the measured value, the value that it is compared with, and the absolute figures behind a ratio. */
  readonly note: string;
  /** More figures, by name. */
  readonly details: Readonly<Record<string, number>>;
}

export type Unit = "×" | "/s" | "s" | "ms" | "µs" | "MB";

/** A row that could not be measured, with the reason. It counts as short of its target. */
export interface FailedRow {
  readonly name: string;
  readonly failure: string;
}

export type Result = Row | FailedRow;

export function isFailed(result: Result): result is FailedRow {
  return "failure" in result;
}

/** Makes a row from its rounds. */
export function toRow(row: Omit<Row, "figure">): Row {
  return { ...row, figure: median(row.rounds) };
}

/** Returns true if the row meets its target, undefined if it has none, false if the figure is not a number. */
export function isMet(result: Result): boolean | undefined {
  if (isFailed(result)) return false;
  const { figure, target } = result;
  if (target === undefined) return Number.isFinite(figure) ? undefined : false;
  switch (target.bound) {
    case "at least":
      return figure >= target.value;
    case "at most":
      return figure <= target.value;
  }
}

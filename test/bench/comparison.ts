/**
 * Compares a run with an earlier one. Only ratios are compared, since absolute figures depend on the machine as much as on
 * the program.
 */
import { isFailed, type Result } from "./row.ts";

export interface Change {
  readonly name: string;
  readonly before: number;
  readonly now: number;
  /** The share that is lost, in the direction that is worse: 0.1 is a tenth worse, -0.1 a tenth better. */
  readonly loss: number;
  /** True if the loss is larger than chance explains. */
  readonly isDrop: boolean;
}

/** A larger loss counts as a drop. */
const DROP = 0.1;

/** Compares every ratio that both runs have, in the order of the later run. */
export function compareRuns(before: readonly Result[], now: readonly Result[]): Change[] {
  const known = new Map(before.map((result) => [result.name, result]));
  return now.flatMap((result) => {
    const earlier = known.get(result.name);
    if (earlier === undefined || isFailed(earlier) || isFailed(result)) return [];
    if (result.unit !== "×" || earlier.unit !== "×") return [];
    const loss =
      result.better === "more" ? 1 - result.figure / earlier.figure : 1 - earlier.figure / result.figure;
    return [
      { name: result.name, before: earlier.figure, now: result.figure, loss, isDrop: loss > DROP + ROUNDING },
    ];
  });
}

/** Keeps exactly a tenth from counting as a drop, because 0.9 is stored inexactly. */
const ROUNDING = 1e-9;

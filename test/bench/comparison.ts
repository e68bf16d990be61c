/**
 * A run against an earlier one: by ratios alone, since absolute figures say as much of the machine as of the
 * program.
 */
import { isFailed, type Result } from "./row.ts";

export interface Change {
  readonly name: string;
  readonly before: number;
  readonly now: number;
  /** How much of what it was is lost, whichever way is better: 0.1 is a tenth worse, -0.1 a tenth better. */
  readonly loss: number;
  /** True where more is lost than chance explains. */
  readonly isDrop: boolean;
}

/** Beyond this a change is called a drop. */
export const DROP = 0.1;

/** Every ratio that both runs have, in the order of the later one. */
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

/** So that exactly a tenth is not a drop for the way in which 0.9 is stored. */
const ROUNDING = 1e-9;

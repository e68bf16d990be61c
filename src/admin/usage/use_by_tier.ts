import type { Tier } from "../../licensing/mod.ts";

interface UseOfColumn {
  /** The day or the month of a chart. */
  readonly column: string;
  readonly tier: Tier;
  readonly used: number;
}

/** Adds use of all modes, and returns a function that returns the sum of a column and a tier. */
export function sumByTier(use: readonly UseOfColumn[]): (column: string, tier: Tier) => number {
  const sums = new Map<string, number>();
  for (const { column, tier, used } of use) {
    const name = `${column} ${tier}`;
    sums.set(name, (sums.get(name) ?? 0) + used);
  }
  return (column, tier) => sums.get(`${column} ${tier}`) ?? 0;
}

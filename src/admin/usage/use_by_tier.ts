import type { Tier } from "../../licensing/mod.ts";

/** Says from whom use is known, where none is shown. */
export const WHO_REPORTS = "The software of customers reports what they use.";

/**
 * Adds use of all modes, and returns a function that returns the sum of a column and a tier. A column is a day or a month
 * of a chart.
 */
export function sumByTier(use: readonly { column: string; tier: Tier; used: number }[]) {
  const sums = new Map<string, number>();
  for (const { column, tier, used } of use) {
    const name = `${column} ${tier}`;
    sums.set(name, (sums.get(name) ?? 0) + used);
  }
  return (column: string, tier: Tier) => sums.get(`${column} ${tier}`) ?? 0;
}

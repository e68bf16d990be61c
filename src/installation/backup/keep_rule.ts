/** Which backups of a folder stay: the newest one of each of the last hours, days and weeks that have one, by UTC. */
import { DAY_MS, HOUR_MS } from "../../base/calendar.ts";
import type { ParsingRule } from "../../base/rule.ts";

/** How many hours, days and weeks keep a backup, by the letter of the unit. */
export type KeepRule = Partial<Record<Unit, number>>;
type Unit = keyof typeof NUMBER_OF;

/** Numbers the hours, days and weeks from 1970 on. A week begins on Monday; 1 January 1970 was a Thursday. */
const NUMBER_OF = {
  h: (ms: number) => Math.floor(ms / HOUR_MS),
  d: (ms: number) => Math.floor(ms / DAY_MS),
  w: (ms: number) => Math.floor((ms / DAY_MS + 3) / 7),
} as const;

export const KEEP_RULE: ParsingRule<KeepRule> = {
  expects: "the last hours, days or weeks of which one backup stays, from 1 to 9999 each, such as 24h,7d,5w",
  parse(text) {
    if (!/^[1-9]\d{0,3}[hdw](,[1-9]\d{0,3}[hdw]){0,2}$/.test(text)) return undefined;
    const parts = text.split(",").map((part) => [part.slice(-1), Number(part.slice(0, -1))] as const);
    const rule: KeepRule = Object.fromEntries(parts);
    return Object.keys(rule).length === parts.length ? rule : undefined;
  },
};

/**
 * Returns the times of the backups that stay. An hour, day or week without a backup does not count, so a pause removes
 * nothing, and the newest time always stays.
 */
export function selectKept(timesMs: readonly number[], rule: KeepRule): Set<number> {
  const kept = new Set<number>();
  for (const [unit, most = 0] of Object.entries(rule) as [Unit, number | undefined][]) {
    const seen = new Set<number>();
    for (const timeMs of timesMs.toSorted((a, b) => b - a)) {
      const number = NUMBER_OF[unit](timeMs);
      if (seen.has(number) || seen.size === most) continue;
      seen.add(number);
      kept.add(timeMs);
    }
  }
  return kept;
}

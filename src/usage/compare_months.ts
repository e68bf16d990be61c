import { type Month, monthOf, toDay, toMonth, toMonthText } from "../base/calendar.ts";
import type { UsageDays } from "./usage_days.ts";

export interface MonthBesideLast {
  /** All units of the month so far, also those of today and imported ones. */
  readonly used: number;
  /** The same part of both months; undefined where the month before was not counted, or no day of the month is over. */
  readonly same?: {
    readonly used: number;
    readonly before: number;
    /** How many days of each month are compared, from the first; undefined for a month that is over, which is compared as a whole. */
    readonly days?: number;
  };
  /** The part of the month's use that has no day, because it was imported. */
  readonly imported: number;
}

/**
 * Compares the use of a month with the month before. Of the present month only the days that are over are compared, with the
 * same days of the month before: today would make every comparison too low. Days that the month before does not have are left out,
 * because they would make it too high. Imported use has no day, so it counts only where
 * whole months are compared. `use` has the days from `from` on.
 */
export function compareMonths(
  use: UsageDays,
  month: Month,
  { from, now }: { readonly from: string; readonly now: Date },
): MonthBesideLast {
  const before = toMonth(month.index - 1);
  const importedIn = (of: Month) => add(use.imported.filter((each) => each.month === toMonthText(of)));
  const sumOf = (of: Month, days?: number) => {
    const text = toMonthText(of);
    const own = use.days.filter(({ day }) => day.startsWith(text) && Number(day.slice(8)) <= (days ?? 31));
    return add(own) + (days === undefined ? importedIn(of) : 0);
  };
  const imported = importedIn(month);
  const used = sumOf(month);
  const isPresent = month.index === monthOf(now.getTime()).index;
  const lastOfBefore = Number(toDay(new Date(before.endsAtMs - 1)).slice(8));
  const days = isPresent ? Math.min(Number(toDay(now).slice(8)) - 1, lastOfBefore) : undefined;
  const isCounted = before.firstDay >= from && (use.filledFrom ?? from) <= before.firstDay;
  if (!isCounted || days === 0) return { used, imported };
  return {
    used,
    imported,
    same: { used: sumOf(month, days), before: sumOf(before, days), ...(days && { days }) },
  };
}

const add = (some: readonly { readonly used: number }[]) => some.reduce((sum, { used }) => sum + used, 0);

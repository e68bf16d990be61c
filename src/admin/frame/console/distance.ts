import { DAY_MS, HOUR_MS } from "../../../base/calendar.ts";
import { counted } from "../../../base/render_count.ts";

const MINUTE_MS = 60_000;
const YEAR_MONTHS = 12;
const MOST_DAYS = 100;

/** Each unit with the number of milliseconds from which it is used, and its own. */
const UNITS = [
  { unit: "day", fromMs: 2 * DAY_MS, ms: DAY_MS },
  { unit: "hour", fromMs: 2 * HOUR_MS, ms: HOUR_MS },
  { unit: "minute", fromMs: MINUTE_MS, ms: MINUTE_MS },
] as const;

/**
 * Returns how far an instant is from now, as people say it: `in 12 days`, `3 hours ago`, `now`. Only whole units count.
 * Months and years are calendar months and years. Months are used after 100 days, years from two on: an instant on this
 * day of the next year is `in 12 months`.
 */
export function distanceOf(at: Date, now: Date): string {
  const isLater = at > now;
  const [from, to] = isLater ? [now, at] : [at, now];
  const amount = amountOf(monthsBetween(from, to), to.getTime() - from.getTime());
  if (amount === undefined) return "now";
  return isLater ? `in ${amount}` : `${amount} ago`;
}

function amountOf(months: number, ms: number): string | undefined {
  if (months >= 2 * YEAR_MONTHS) return counted(Math.floor(months / YEAR_MONTHS), "year");
  if (ms >= (MOST_DAYS + 1) * DAY_MS) return counted(months, "month");
  const found = UNITS.find(({ fromMs }) => ms >= fromMs);
  return found && counted(Math.floor(ms / found.ms), found.unit);
}

function monthsBetween(from: Date, to: Date): number {
  const monthOf = (at: Date) => at.getUTCFullYear() * YEAR_MONTHS + at.getUTCMonth();
  return monthOf(to) - monthOf(from) - (to.getUTCDate() < from.getUTCDate() ? 1 : 0);
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/**
 * Each unit with the number of milliseconds from which it is used, and its own. A month has 30.44 days. Months and years
 * begin where there are two of them: 60 days would be one month.
 */
const UNITS = [
  { unit: "year", fromMs: 731 * DAY_MS, ms: 365.25 * DAY_MS },
  { unit: "month", fromMs: 61 * DAY_MS, ms: (365.25 / 12) * DAY_MS },
  { unit: "day", fromMs: 2 * DAY_MS, ms: DAY_MS },
  { unit: "hour", fromMs: 2 * HOUR_MS, ms: HOUR_MS },
  { unit: "minute", fromMs: MINUTE_MS, ms: MINUTE_MS },
] as const;

/**
 * Returns how far an instant is from now, as people say it: `in 12 days`, `3 hours ago`, `now`. Only whole units count,
 * so it never says that more time is left than there is.
 */
export function distanceOf(at: Date, now: Date): string {
  const ms = at.getTime() - now.getTime();
  const found = UNITS.find(({ fromMs }) => Math.abs(ms) >= fromMs);
  if (found === undefined) return "now";
  const count = Math.floor(Math.abs(ms) / found.ms);
  const amount = `${count} ${found.unit}${count === 1 ? "" : "s"}`;
  return ms > 0 ? `in ${amount}` : `${amount} ago`;
}

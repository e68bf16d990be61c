/**
 * The use of the demo's customers in ninety days: plausible numbers with the rhythm of a week and of a day, and with
 * growth. They depend only on the customer and on the day, so a day has the same numbers on every machine.
 */
import { createHash } from "node:crypto";
import type { HourOfActivity } from "../../activity/mod.ts";
import { DAY_MS, HOUR_MS, monthOf } from "../../calendar.ts";
import { monthlyLimitOf, type Tier } from "../../licensing/mod.ts";
import type { Code } from "../../refusal.ts";
import {
  DEMO_CUSTOMERS,
  DEMO_DAYS,
  type DemoCustomer,
  type DemoRefusals,
  NOBODYS_REFUSALS,
} from "./customers.ts";

/** The part of a day's use in each hour, UTC, in percent. */
const HOURS = [1, 1, 1, 1, 1, 2, 3, 5, 7, 8, 9, 8, 7, 8, 9, 8, 6, 4, 3, 2, 2, 2, 1, 1];
/** The growth over the ninety days: the first day has this part of the last day. */
const FIRST_PART = 0.55;
const WORKING_HOURS = [7, 18] as const;

export interface DemoDay {
  /** The first instant of the day. */
  readonly at: Date;
  /** The tier at the end of the day. */
  readonly tier: Tier;
  readonly used: number;
  /** Inferences that the quota of the month refused. */
  readonly refused: number;
}

/** Returns the days with use of a customer, the oldest first. The last one is today, until the last full hour. */
export function daysOf(customer: DemoCustomer, now: Date): DemoDay[] {
  const days: DemoDay[] = [];
  let month = "";
  let used = 0;
  const first = Math.min(DEMO_DAYS - 1, customer.since - 1);
  for (let daysAgo = first; daysAgo >= customer.until; daysAgo--) {
    const at = dayBefore(now, daysAgo);
    const { firstDay } = monthOf(at.getTime());
    if (firstDay !== month) used = 0;
    month = firstDay;
    const tier = tierOn(customer, daysAgo);
    const limit = monthlyLimitOf(tier);
    const wanted = Math.floor(wantedOn(customer, at, daysAgo) * partOfDay(at, now));
    const granted = Math.min(wanted, (limit ?? Number.MAX_SAFE_INTEGER) - used);
    used += granted;
    // A program that is refused tries again a few times, not for each inference.
    days.push({ at, tier, used: granted, refused: Math.min(wanted - granted, 60) });
  }
  return days;
}

/** The part of its quota that a customer near its quota has used. */
const NEAR_PART = 0.87;

/** Returns the units without a day that a customer near its quota has used this month, as if they were imported. */
export function importedBy({ tier, isNearQuota }: DemoCustomer, days: readonly DemoDay[], now: Date): number {
  if (!isNearQuota) return 0;
  const { beginsAtMs } = monthOf(now.getTime());
  const used = days.reduce((sum, day) => sum + (day.at.getTime() < beginsAtMs ? 0 : day.used), 0);
  return Math.max(0, Math.round((monthlyLimitOf(tier) ?? 0) * NEAR_PART) - used);
}

/** The mark of the demo in the audit log and in the activity. */
export const DEMO_REASON = "demo";

/** How many requests of one kind were answered in an hour. */
interface DemoHour extends HourOfActivity {
  readonly code: Code | "OK";
}

/** Requests that succeed besides each inference: one for so many inferences. */
const BESIDES = [
  ["validate", 40],
  ["refresh", 60],
  ["models", 1_500],
] as const;

/** Returns the requests of all customers by hour until the last full hour; refusals are those of {@linkcode refusalsOf}. */
export function hoursOf(days: readonly DemoDay[], now: Date): DemoHour[] {
  const counts = new Map<string, DemoHour>();
  const add = (hour: Omit<DemoHour, "reason">) => {
    const id = `${hour.hourMs} ${hour.endpoint} ${hour.code}`;
    const count = (counts.get(id)?.count ?? 0) + hour.count;
    if (count > 0) counts.set(id, { ...hour, reason: DEMO_REASON, count });
  };
  for (const [atMs, ofDay] of Map.groupBy(days, ({ at }) => at.getTime())) {
    const share = partOfDay(new Date(atMs), now);
    const used = share === 0 ? 0 : ofDay.reduce((sum, day) => sum + day.used, 0) / share;
    const refused = ofDay.reduce((sum, day) => sum + day.refused, 0);
    for (const [hour, percent] of HOURS.entries()) {
      const hourMs = atMs + hour * HOUR_MS;
      if (!isOver(hourMs, now)) continue;
      const inferences = Math.round((used * percent) / 100);
      add({ hourMs, endpoint: "analytics", code: "OK", count: inferences });
      for (const [endpoint, each] of BESIDES)
        add({ hourMs, endpoint, code: "OK", count: Math.round(inferences / each) });
      add({
        hourMs,
        endpoint: "analytics",
        code: "QUOTA_EXCEEDED",
        count: Math.round((refused * percent) / 100),
      });
    }
  }
  const refusals = [...NOBODYS_REFUSALS, ...DEMO_CUSTOMERS.flatMap((customer) => customer.refusals)];
  for (const kind of refusals) for (const hour of refusalsOf(kind, now)) add(hour);
  return [...counts.values()];
}

/** Returns the hours in which requests were refused for a reason, the oldest first. */
export function refusalsOf(
  { endpoint, code, reason, from, to, perHour, hours: [first, last] = WORKING_HOURS }: DemoRefusals,
  now: Date,
): Omit<DemoHour, "reason">[] {
  const refusals: Omit<DemoHour, "reason">[] = [];
  for (let daysAgo = from; daysAgo >= to; daysAgo--) {
    const day = dayBefore(now, daysAgo);
    for (let hour = first; hour <= last; hour++) {
      const hourMs = day.getTime() + hour * HOUR_MS;
      const count = Math.round(perHour * (0.4 + 0.6 * random(`${endpoint} ${code} ${reason} ${hourMs}`)));
      if (count > 0 && isOver(hourMs, now)) refusals.push({ hourMs, endpoint, code, count });
    }
  }
  return refusals;
}

/** Returns the first instant of a day, so many days ago. */
export function dayBefore(now: Date, daysAgo: number): Date {
  return new Date((Math.floor(now.getTime() / DAY_MS) - daysAgo) * DAY_MS);
}

function tierOn({ tier, firstTier = tier, changes }: DemoCustomer, daysAgo: number): Tier {
  const isChanged = changes.some(({ daysAgo: at, change }) => typeof change === "object" && daysAgo <= at);
  return isChanged ? tier : firstTier;
}

function wantedOn({ name, perDay, weekend }: DemoCustomer, at: Date, daysAgo: number): number {
  const isWeekend = [0, 6].includes(at.getUTCDay());
  const growth = 1 - ((1 - FIRST_PART) * daysAgo) / DEMO_DAYS;
  const noise = 0.82 + 0.36 * random(`${name} ${at.getTime()}`);
  return perDay * (isWeekend ? weekend : 1) * growth * noise;
}

/** Returns which part of a day's use belongs to the hours that are over. */
function partOfDay(at: Date, now: Date): number {
  const over = HOURS.filter((_, hour) => isOver(at.getTime() + hour * HOUR_MS, now));
  return over.reduce((sum, percent) => sum + percent, 0) / 100;
}

function isOver(hourMs: number, now: Date): boolean {
  return hourMs + HOUR_MS <= now.getTime();
}

/** Returns a number from 0 to 1 (excluded); the same seed gives the same number. */
function random(seed: string): number {
  return createHash("sha256").update(seed).digest().readUInt32LE() / 2 ** 32;
}

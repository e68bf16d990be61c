import { DAY_AS_BOUND, HOUR_MS, TIMESTAMP } from "../../base/calendar.ts";
import { type ConditionValues, condition } from "../../base/condition.ts";

/** For how many days counts are kept. */
export const ACTIVITY_KEPT_DAYS = 400;

/** The names by which the counts can be divided. */
export const ACTIVITY_NAMES = ["endpoint", "code", "reason"] as const;
export type ActivityName = (typeof ACTIVITY_NAMES)[number];

export const ACTIVITY_STEPS = ["hour", "day", "month"] as const;
type ActivityStep = (typeof ACTIVITY_STEPS)[number];

export interface ActivityQuery {
  /** The first hour, day or month is the one that contains this instant. */
  readonly from: Date;
  /** The end of the span. With the step `hour`, hours that begin at the end or later are left out; otherwise days. */
  readonly to: Date;
  /** By `reason`, only refusals with a reason are counted. */
  readonly by: ActivityName;
  readonly step: ActivityStep;
}

/** The longest span for each step. A step has at most one row for each name, and the program has few names. */
export const MAX_DAYS = { hour: 31, day: 400, month: Number.POSITIVE_INFINITY } as const;

/** What a request asks for, at every door. */
export const ACTIVITY_CONDITIONS = {
  by: condition(
    "how the counts are divided; by reason, only refusals with a reason are counted",
    ACTIVITY_NAMES,
    {
      as: "what",
      default: "code",
    },
  ),
  step: condition("the time that one count covers", ACTIVITY_STEPS, { default: "hour" }),
  from: condition(
    "a time in the first hour, day or month, by default of the last 24 hours, 30 days or 13 months; the span is at " +
      `most ${MAX_DAYS.hour} days by hour, and ${MAX_DAYS.day} by day`,
    TIMESTAMP,
    { as: "time" },
  ),
  to: condition(`the end, which is not included; ${DAY_AS_BOUND}; by default now`, TIMESTAMP, { as: "time" }),
} as const;

/** How many hours, days or months are shown if only the end is given. */
const USUAL_STEPS = { hour: 24, day: 30, month: 13 } as const;

/**
 * Completes the fields that a request left out. The defaults are: until now, by hour, by code, and the last 24 hours,
 * 30 days or 13 months.
 */
export function completeQuery(asked: ConditionValues<typeof ACTIVITY_CONDITIONS>, now: Date): ActivityQuery {
  const { to = now, by = "code", step = "hour" } = asked;
  // An hour, day or month that begins at the end is not in the span.
  const last = new Date(to.getTime() - 1);
  return { from: asked.from ?? goBack(last, step, USUAL_STEPS[step] - 1), to, by, step };
}

/**
 * Returns the beginning of an hour, day or month: the one that contains an instant, moved back by a number of steps.
 */
export function goBack(at: Date, step: ActivityStep, steps: number): Date {
  const [year, month, day] = [at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate()];
  if (step === "month") return new Date(Date.UTC(year, month - steps, 1));
  if (step === "day") return new Date(Date.UTC(year, month, day - steps));
  return new Date(at.getTime() - (at.getTime() % HOUR_MS) - steps * HOUR_MS);
}

/** Returns the beginnings of the hours, days or months of a query, the earliest first. */
export function stepsOf({ from, to, step }: ActivityQuery): Date[] {
  const steps: Date[] = [];
  for (let at = goBack(from, step, 0); at < to; at = goBack(at, step, -1)) steps.push(at);
  return steps;
}

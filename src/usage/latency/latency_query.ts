import { DAY_AS_BOUND, DAY_MS, HOUR_MS, TIMESTAMP } from "../../base/calendar.ts";
import { type ConditionValues, condition } from "../../base/condition.ts";
import { LATENCY_KEPT_HOURS, STEP_MS } from "./bounds.ts";

export interface LatencyQuery {
  /** The first five minutes are those that contain this instant. */
  readonly from: Date;
  /** Five minutes that begin at this end or later are left out. */
  readonly to: Date;
}

/** What a request asks for. */
export const LATENCY_CONDITIONS = {
  from: condition(
    `a time in the first five minutes, by default of the last 24 hours; the span is at most ${LATENCY_KEPT_HOURS} hours`,
    TIMESTAMP,
    { as: "time" },
  ),
  to: condition(`the end, which is not included; ${DAY_AS_BOUND}; by default now`, TIMESTAMP, { as: "time" }),
} as const;

/** Completes the fields that a request left out: the default is the last 24 hours. */
export function completeLatencyQuery(
  asked: ConditionValues<typeof LATENCY_CONDITIONS>,
  now: Date,
): LatencyQuery {
  const { to = now } = asked;
  return { from: asked.from ?? new Date(lastStepOf(to) - DAY_MS + STEP_MS), to };
}

/** Returns the beginnings of the five minutes of a span, the earliest first. */
export function latencyStepsOf({ from, to }: LatencyQuery): Date[] {
  const steps: Date[] = [];
  for (let atMs = stepOf(from).getTime(); atMs < to.getTime(); atMs += STEP_MS) steps.push(new Date(atMs));
  return steps;
}

/** Returns the times that are compared to find what is slower: the last hour of a span, and the 24 hours before it. */
export function comparedTimesOf({ to }: LatencyQuery) {
  const hourMs = lastStepOf(to) - HOUR_MS + STEP_MS;
  return { dayBefore: new Date(hourMs - DAY_MS), lastHour: new Date(hourMs) };
}

/** Returns the beginning of the five minutes that contain an instant. */
export function stepOf(at: Date): Date {
  return new Date(at.getTime() - (at.getTime() % STEP_MS));
}

/** The last step before an end. */
function lastStepOf(to: Date): number {
  return stepOf(new Date(to.getTime() - 1)).getTime();
}

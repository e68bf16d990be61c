/** Finds the counts of an hour that differ clearly from the same hour of every day of the last four weeks. */
import { DAY_MS, HOUR_MS } from "../../base/calendar.ts";
import type { Database } from "../../database/mod.ts";
import { type ActivityQuery, goBack, stepsOf } from "./activity_query.ts";
import { type ActivityCount, countAnswers, findFirstHour } from "./find_activity.ts";

export interface Unusual extends ActivityCount {
  readonly kind: "high" | "low";
  /** Of the earlier counts. */
  readonly lowest: number;
  readonly highest: number;
}

/** For how many days the earlier counts of an hour are compared. */
export const COMPARED_DAYS = 28;
/** A smaller difference is chance. */
const LEAST_DIFFERENCE = 20;
const FACTOR = 2;

/** After this time every process has added its counts of an hour. */
const SETTLED_MS = 120_000;

interface UnusualOptions {
  readonly hours: readonly Date[];
  /** The first hour of the table: before it nothing was counted. Undefined for an empty table. */
  readonly firstHour: Date | undefined;
  readonly now: Date;
}

/** Finds counts by hour, compares them with those of the four weeks before, and finds the first hour of the table. */
export async function findHours(database: Pick<Database, "read">, query: ActivityQuery, now: Date) {
  const start = goBack(query.from, "hour", 0);
  const [found, firstHour] = await Promise.all([
    countAnswers(database, { ...query, from: goBack(start, "hour", COMPARED_DAYS * 24) }),
    findFirstHour(database),
  ]);
  return {
    found,
    /** Those of the query. */
    counts: found.filter(({ at }) => at >= start),
    firstHour,
    unusual: findUnusual(found, { hours: stepsOf(query), firstHour, now }),
  };
}

/**
 * Returns the unusual counts of these hours, the latest first. `counts` are those of the hours and of the four weeks
 * before; a missing one is zero. An hour that has not ended can only be high.
 */
export function findUnusual(
  counts: readonly ActivityCount[],
  { hours, firstHour, now }: UnusualOptions,
): Unusual[] {
  if (firstHour === undefined) return [];
  const found: Unusual[] = [];
  for (const [name, ofName] of Map.groupBy(counts, (count) => count.name)) {
    const byHour = new Map(ofName.map(({ at, count }) => [at.getTime(), count]));
    for (const at of hours) {
      const count = byHour.get(at.getTime()) ?? 0;
      const unusual = compareWithEarlier(count, earlierCounts(byHour, at, firstHour));
      const isOver = now.getTime() >= at.getTime() + HOUR_MS + SETTLED_MS;
      if (unusual !== undefined && (isOver || unusual.kind === "high"))
        found.push({ at, name, count, ...unusual });
    }
  }
  return found.sort((one, other) => other.at.getTime() - one.at.getTime());
}

function earlierCounts(byHour: ReadonlyMap<number, number>, at: Date, firstHour: Date): number[] {
  return Array.from({ length: COMPARED_DAYS }, (_, day) => at.getTime() - (day + 1) * DAY_MS)
    .filter((atMs) => atMs >= firstHour.getTime())
    .map((atMs) => byHour.get(atMs) ?? 0);
}

/**
 * Returns whether a count is high or low: it differs by at least 20 from each earlier count, and is above twice the
 * highest or below half the lowest of them. Undefined for any other count, and without earlier counts.
 */
export function compareWithEarlier(
  count: number,
  earlier: readonly number[],
): Pick<Unusual, "kind" | "lowest" | "highest"> | undefined {
  if (earlier.length === 0) return undefined;
  const lowest = Math.min(...earlier);
  const highest = Math.max(...earlier);
  if (count - highest >= LEAST_DIFFERENCE && count > highest * FACTOR) {
    return { kind: "high", lowest, highest };
  }
  if (lowest - count >= LEAST_DIFFERENCE && count < lowest / FACTOR) return { kind: "low", lowest, highest };
  return undefined;
}

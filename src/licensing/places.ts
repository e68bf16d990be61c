/** The places of a license: on how many machines it may run at one moment, node-locked or floating. */

import { type Refusal, refuse } from "../base/refusal.ts";
import { counted, renderCount } from "../base/render_count.ts";
import { wholeNumber } from "../base/rule.ts";
import type { Fragment, Sql } from "../database/mod.ts";

/** The rule for the machine limit of a license. */
export const MAX_MACHINES = wholeNumber(1, 1_000_000);

/**
 * The rule for the minutes from the last heartbeat of a machine until it loses its place. Up to {@linkcode MOST_OF_SEAT} they
 * are those of a floating seat; a machine with more, up to 90 days, counts as node-locked.
 */
export const SEAT_MINUTES = wholeNumber(5, 129_600);

const HOUR_MINUTES = 60;
const DAY_MINUTES = 1_440;
/** The most minutes of a floating seat. */
const MOST_OF_SEAT = DAY_MINUTES;

/** The most requests a minute to which machines raise a limit. */
const MOST_RAISED = 5_000;

/**
 * Returns how many requests a minute the keys of a license may send at least, where limits grow with the number of its
 * machines.
 */
export function leastLimitOf({ maxMachines }: Pick<Places, "maxMachines">): number {
  return Math.min(maxMachines ?? 0, MOST_RAISED);
}

export interface Places {
  /** Null: machines are not counted. */
  readonly maxMachines: number | null;
  /** Null: a machine keeps its place until it is released. */
  readonly seatMinutes: number | null;
}

/** Places as a request names them. A value that is undefined is left out. */
export type RequestedPlaces = { readonly [Name in keyof Places]?: Places[Name] | undefined };

/** Says why seat minutes alone are refused. */
export const NEEDS_BOTH = "seat minutes need a machine limit, so give both";

/** Tells whether a new license would have seat minutes without a machine limit. */
export function lacksPlaces({ maxMachines = null, seatMinutes = null }: RequestedPlaces): boolean {
  return seatMinutes !== null && maxMachines === null;
}

/** Returns the refusal of seat minutes without a machine limit; `what` is what cannot be done, such as `issue key`. */
export function refuseSeatsWithoutPlaces(what: string): Refusal {
  const fields = [{ field: "seat_minutes", error: NEEDS_BOTH }];
  return refuse("INVALID_REQUEST", `Cannot ${what}: ${NEEDS_BOTH}`, { fields });
}

/**
 * Describes the places of a license for people, such as `30 floating seats of 15 minutes`, or
 * `5 node-locked machines that check in within 30 days`.
 */
export function describePlaces({ maxMachines, seatMinutes }: Places): string {
  if (maxMachines === null) return "not counted";
  if (seatMinutes !== null && hasSeats({ seatMinutes }))
    return `${counted(maxMachines, "floating seat")} of ${renderCount(seatMinutes)} minutes`;
  const machines = counted(maxMachines, "node-locked machine");
  if (seatMinutes === null) return machines;
  return `${machines} that ${maxMachines === 1 ? "checks" : "check"} in within ${describeMinutes(seatMinutes)}`;
}

/** What machines lose by another limit. */
export const PLACES_LOST = {
  /** Fewer places than are taken. */
  further: "no place for another machine",
  all: "machines lose their places",
} as const;

/**
 * Says how many places are taken, of how many before and after. A lower limit than that ends no place, but no other machine
 * gets one until fewer are taken. Without a limit every machine loses its place.
 */
export function takenEffect(
  before: Pick<Places, "maxMachines">,
  after: Pick<Places, "maxMachines">,
  taken: number,
) {
  const describe = ({ maxMachines }: Pick<Places, "maxMachines">) =>
    maxMachines === null ? "only by signed licenses" : `${renderCount(taken)} of ${renderCount(maxMachines)}`;
  const most = after.maxMachines ?? Number.POSITIVE_INFINITY;
  const isBelow = most < taken && most < (before.maxMachines ?? Number.POSITIVE_INFINITY);
  const areAllLost = taken > 0 && before.maxMachines !== null && after.maxMachines === null;
  const loss = isBelow ? PLACES_LOST.further : areAllLost ? PLACES_LOST.all : undefined;
  return { what: "places taken", from: describe(before), to: describe(after), loss };
}

/** Describes a time in the largest unit of which it has a whole number. */
function describeMinutes(minutes: number): string {
  if (minutes % DAY_MINUTES === 0) return counted(minutes / DAY_MINUTES, "day");
  return minutes % HOUR_MINUTES === 0 ? counted(minutes / HOUR_MINUTES, "hour") : counted(minutes, "minute");
}

/** Tells whether the machines of a license have floating seats. */
export function hasSeats({ seatMinutes }: Pick<Places, "seatMinutes">): boolean {
  return seatMinutes !== null && seatMinutes <= MOST_OF_SEAT;
}

/** Returns the condition, as SQL, that the machines of a license have floating seats. */
export function isFloating(sql: Sql, license: Fragment): Fragment {
  return sql`coalesce(${license}.seat_minutes <= ${MOST_OF_SEAT}::integer, false)`;
}

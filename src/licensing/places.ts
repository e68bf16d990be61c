/** The places of a license: on how many machines it may run at one moment, node-locked or floating. */

import { type Refusal, refuse } from "../base/refusal.ts";
import { counted, renderCount } from "../base/render_count.ts";
import { wholeNumber } from "../base/rule.ts";

/** The rule for the machine limit of a license. */
export const MAX_MACHINES = wholeNumber(1, 1_000_000);

/** The rule for the minutes of a floating seat. */
export const SEAT_MINUTES = wholeNumber(5, 1_440);

export interface Places {
  /** Null: machines are not counted. */
  readonly maxMachines: number | null;
  /** Null: node-locked. */
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

/** Describes the places of a license for people, such as `30 floating seats of 15 minutes`. */
export function describePlaces({ maxMachines, seatMinutes }: Places): string {
  if (maxMachines === null) return "not counted";
  if (seatMinutes === null) return counted(maxMachines, "node-locked machine");
  return `${counted(maxMachines, "floating seat")} of ${renderCount(seatMinutes)} minutes`;
}

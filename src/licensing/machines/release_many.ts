/** The release of many machines: one by one, each as a release of its own. */

import { toTimestamp } from "../../base/calendar.ts";
import type { Clock } from "../../base/clock.ts";
import { toId } from "../../base/ids.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import { counted } from "../../base/render_count.ts";
import { type Database, DatabaseUnavailable, isStopped } from "../../database/mod.ts";
import type { RestrictedBy } from "../mod.ts";
import { listMachines, type MachineSummary } from "./list_machines.ts";
import type { MachineFilter } from "./machine_filter.ts";
import { type ReleasedMachine, releaseByOperator } from "./release_by_operator.ts";

/** The most machines that are released at once. */
export const MOST_RELEASED = 500;

/** For how long one request begins releases, because its connection is closed after 30 s. */
export const RELEASES_REQUEST_MS = 20_000;

/** Finds the active machines that meet the conditions, at most {@linkcode MOST_RELEASED}, and tells whether there are more. */
export async function findActive(
  database: Database,
  { limit = MOST_RELEASED, ...filter }: MachineFilter,
): Promise<{ readonly machines: readonly MachineSummary[]; readonly hasMore: boolean }> {
  if ((filter.state ?? "active") !== "active") return { machines: [], hasMore: false };
  const found = await listMachines(database, { filter: { ...filter, state: "active", limit: limit + 1 } });
  return { machines: found.slice(0, limit), hasMore: found.length > limit };
}

/** What a release of many did to one machine. */
export interface Release {
  readonly id: string;
  readonly result: ReleasedMachine | Refusal;
}

interface ReleaseMany extends RestrictedBy {
  readonly clock: Clock;
  /** No release begins later than this. By default all of them are made. */
  readonly mostMs?: number;
}

/**
 * Releases machines as {@linkcode releaseByOperator} does, one by one and each once. A machine that cannot be released is
 * refused alone, also if another statement holds its license. If the database does not answer any more, the result says what
 * was released before.
 */
export async function releaseMachines(
  database: Database,
  uuids: readonly string[],
  { clock, mostMs = Number.POSITIVE_INFINITY, ...by }: ReleaseMany,
): Promise<readonly Release[]> {
  const endMs = clock.monotonicMs() + mostMs;
  const releases: Release[] = [];
  for (const uuid of new Set(uuids)) {
    const isTried = clock.monotonicMs() <= endMs && !releases.some(({ result }) => result === LOST);
    const result = isTried
      ? await releaseOne(database, uuid, { ...by, isFirst: releases.length === 0 })
      : UNTRIED;
    releases.push({ id: toId("mch", uuid), result });
  }
  return releases;
}

async function releaseOne(
  database: Database,
  uuid: string,
  { isFirst, ...by }: RestrictedBy & { readonly isFirst: boolean },
): Promise<ReleasedMachine | Refusal> {
  try {
    return await releaseByOperator(database, uuid, by);
  } catch (error) {
    if (isStopped(error)) return STOPPED;
    if (error instanceof DatabaseUnavailable && !isFirst) return LOST;
    throw error;
  }
}

const STOPPED = refuse(
  "SERVICE_UNAVAILABLE",
  "Cannot release machine: the database needs too long, so the statement was stopped, and nothing was changed; try again",
);
const LOST = refuse(
  "SERVICE_UNAVAILABLE",
  "Cannot release machine: the database did not answer, so the machine may be released or not; try again",
);
const UNTRIED = refuse(
  "SERVICE_UNAVAILABLE",
  "Cannot release machine: the database was too slow for the machines before, so nothing was changed; try again",
);

/** Returns what a machine is after its release; undefined if that was refused. */
export function toReleased({ result }: Release): ReleasedMachine | undefined {
  return isRefusal(result) ? undefined : result;
}

/** How many places are free after releases, and how many stay taken by signed licenses. */
interface Places {
  readonly free: number;
  readonly taken: number;
  /** When the last one that stays taken becomes free. */
  readonly takenUntil: Date | null;
}

/** Counts the places by the moments until which they stay taken; null for a place that is free. */
function countPlaces(ends: readonly (Date | null)[]): Places {
  const later = ends.filter((end) => end !== null).toSorted((a, b) => a.getTime() - b.getTime());
  return { free: ends.length - later.length, taken: later.length, takenUntil: later.at(-1) ?? null };
}

export interface ReleaseCounts extends Places {
  readonly released: number;
  /** The machines that were not active. */
  readonly unchanged: number;
  readonly refused: number;
}

/** Counts what a release of many did. */
export function countReleases(releases: readonly Release[]): ReleaseCounts {
  const done = releases.flatMap((release) => toReleased(release) ?? []);
  const changed = done.filter(({ isChanged }) => isChanged);
  return {
    released: changed.length,
    ...countPlaces(changed.map(({ takenUntil }) => takenUntil)),
    unchanged: done.length - changed.length,
    refused: releases.length - done.length,
  };
}

export interface ForeseenReleases extends Places {
  readonly machines: number;
  readonly licenses: number;
}

/** Counts what a release of these active machines would do. */
export function foreseeReleases(machines: readonly MachineSummary[]): ForeseenReleases {
  return {
    machines: machines.length,
    licenses: new Set(machines.map(({ licenseId }) => licenseId)).size,
    ...countPlaces(machines.map(({ signedUntil }) => signedUntil)),
  };
}

/** Says what a release of many would do: `3 active machines of 2 licenses: 2 places become free at once, and …`. */
export function describeForeseen({ machines, licenses, ...places }: ForeseenReleases): string {
  const become = `${places.free === 1 ? "becomes" : "become"} free at once`;
  const of = `${counted(machines, "active machine")} of ${counted(licenses, "license")}`;
  return `${of}: ${sayPlaces(places, become)}`;
}

/** Says what a release of many did: `Released 3 machines: 2 places are free, and …`. */
export function describeReleases(counts: ReleaseCounts): string {
  const { released, free, unchanged, refused } = counts;
  const places = released === 0 ? "" : `: ${sayPlaces(counts, free === 1 ? "is free" : "are free")}`;
  return [
    `Released ${counted(released, "machine")}${places}`,
    ...(unchanged > 0 ? [`not active any more: ${counted(unchanged, "machine")}`] : []),
    ...(refused > 0 ? [`not released: ${counted(refused, "machine")}`] : []),
  ].join("; ");
}

function sayPlaces({ free, taken, takenUntil }: Places, verb: string): string {
  const stay =
    takenUntil === null
      ? "none stays taken by a signed license"
      : `${counted(taken, "place")} ${taken === 1 ? "stays" : "stay"} taken by a signed license, until ` +
        `${toTimestamp(takenUntil)} at most`;
  return `${counted(free, "place")} ${verb}, and ${stay}`;
}

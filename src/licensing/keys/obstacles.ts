/** Why the service refuses a key now, for every list and page. */

import { toDay } from "../../base/calendar.ts";
import { renderCount } from "../../base/render_count.ts";
import type { ListedState } from "../mod.ts";

/**
 * The reasons for which the service refuses a key. `revoked` and `replaced` (the key was rotated and the overlap is
 * over) cannot be undone for this key. `suspended`, `expired` (the license expired) and `quota_used_up` can be undone,
 * and several of them can hold at once. With `too_many_requests` the service refused some requests in the last hour.
 */
export const OBSTACLES = [
  "revoked",
  "replaced",
  "suspended",
  "expired",
  "quota_used_up",
  "too_many_requests",
] as const;
export type Obstacle = (typeof OBSTACLES)[number];

/** What decides whether the service refuses a key. */
export interface Obstructed {
  readonly state: ListedState;
  readonly monthlyLimit: number | null;
  readonly used: number;
  /** The expiry of the license, or the key's own expiry, which a rotated key has, if that is earlier. */
  readonly expiresAt: Date;
  readonly licenseExpiresAt: Date;
  /** How many requests were refused in the last hour because there were too many. */
  readonly refusedLastHour: number;
  /** All requests of the last hour since the first of these refusals; 0 without one. */
  readonly requestsLastHour: number;
}

/** Finds all reasons for which the service refuses a key at `now`; none for a key that works. */
export function findObstacles(key: Obstructed, now: Date): readonly Obstacle[] {
  if (key.state === "revoked") return ["revoked"];
  // Only a rotated key has its own expiry, and a renewed license does not change that expiry.
  if (key.expiresAt < key.licenseExpiresAt && key.expiresAt <= now) return ["replaced"];
  const obstacles: Obstacle[] = [];
  if (key.state === "suspended") obstacles.push("suspended");
  if (key.licenseExpiresAt <= now) obstacles.push("expired");
  if (key.monthlyLimit !== null && key.used >= key.monthlyLimit) obstacles.push("quota_used_up");
  if (key.refusedLastHour > 0) obstacles.push("too_many_requests");
  return obstacles;
}

type RefusedCounts = Pick<Obstructed, "refusedLastHour" | "requestsLastHour">;

type Refused = RefusedCounts & {
  readonly obstacles: readonly Obstacle[];
};

/**
 * Says how many requests were refused: `173 of 240 in the last hour`. Requests before the first refusal are not counted,
 * so `30 of 30` would look as if every request failed: then it is `30 refused in the last hour`.
 */
export function describeRefused({ refusedLastHour: refused, requestsLastHour: all }: RefusedCounts): string {
  return `${renderCount(refused)} ${refused === all ? "refused" : `of ${renderCount(all)}`} in the last hour`;
}

/** Says the reasons in words, with their details: `too many requests`, `173 of 240 in the last hour`. */
export function describeObstacles(key: Refused) {
  return key.obstacles.map((obstacle) => ({
    obstacle,
    words: obstacle === "replaced" ? "rotated" : obstacle.replaceAll("_", " "),
    details: obstacle === "too_many_requests" ? describeRefused(key) : "",
  }));
}

/** What people tell a customer whose client sends too many requests. */
export const MUST_WAIT = "the client must wait as long as the answer says";

/** Says one reason in a sentence for the people who help the customer. `resetsAt` is the contract's `resets_at`. */
export function sentenceOf(obstacle: Obstacle, key: Obstructed, resetsAt: string): string {
  switch (obstacle) {
    case "revoked":
      return "It is revoked for good.";
    case "replaced":
      return "It was rotated, and the overlap is over.";
    case "suspended":
      return "It is suspended.";
    case "expired":
      return `Its license expired on ${toDay(key.licenseExpiresAt)}.`;
    case "quota_used_up":
      return `The quota of the month is used up; it resets on ${resetsAt.slice(0, 10)}.`;
    case "too_many_requests":
      return `It sends too many requests (${describeRefused(key)}): ${MUST_WAIT}.`;
  }
}

/** Says the reasons as one text: `suspended; quota used up`. */
export function renderObstacles(key: Refused): string {
  return describeObstacles(key)
    .map(({ words, details }) => (details === "" ? words : `${words}: ${details}`))
    .join("; ");
}

/** The refusals of a request whose key is unknown, not active or expired. */
import { type Refusal, refuse } from "../base/refusal.ts";
import { INVALID_KEY, type KeyRecord, OBSTACLE_REFUSALS } from "../licensing/keys/mod.ts";

export const UNKNOWN_KEY = refuse("INVALID_KEY", INVALID_KEY, { reason: "unknown" });

/** Returns the refusal of a key that is not active or has expired; `nowMs` is the time by the wall clock. */
export function refusalOf(record: KeyRecord, nowMs: number): Refusal | undefined {
  if (record.state !== "active" && record.state !== "unstarted") return OBSTACLE_REFUSALS[record.state];
  return record.expiresAtMs <= nowMs ? OBSTACLE_REFUSALS.expired : undefined;
}

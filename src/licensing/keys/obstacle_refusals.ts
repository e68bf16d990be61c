import { refuse, refuseTooMany } from "../../base/refusal.ts";
import type { Obstacle } from "./obstacles.ts";

/** What a client gets for a key that does not exist or is not active. The reason is only for operators. */
export const INVALID_KEY = "The API key is invalid or inactive";
const EXPIRED = refuse("KEY_EXPIRED", "The API key has expired", { reason: "expired" });

/** What a client gets from validate because of each obstacle. Of several obstacles the first one counts. */
export const OBSTACLE_REFUSALS = {
  revoked: refuse("INVALID_KEY", INVALID_KEY, { reason: "revoked" }),
  replaced: EXPIRED,
  suspended: refuse("INVALID_KEY", INVALID_KEY, { reason: "suspended" }),
  expired: EXPIRED,
  quota_used_up: refuse("QUOTA_EXCEEDED", "The monthly quota is used up"),
  too_many_requests: refuseTooMany(),
} as const satisfies Readonly<Record<Obstacle, unknown>>;

import { WindowTable } from "../../../base/rate_limits/mod.ts";
import { type Refusal, refuse } from "../../../base/refusal.ts";
import type { AdminOptions } from "../options.ts";

/** Failed logins a minute from one group of addresses. */
const LIMIT = 10;
const WINDOWS = 10_000;

export type LoginLimit = ReturnType<typeof createLoginLimit>;

/** Creates the limit of failed logins: it counts them by all ways together, for each group of addresses. */
export function createLoginLimit({ clock, noteFailedLogin }: AdminOptions) {
  const windows = new WindowTable(LIMIT, WINDOWS);
  return {
    /** Tells whether the next failure of the group is one too many. */
    isFull: (group: string) => !windows.peek(group, clock.monotonicMs()).allowed,
    /** Counts a failure, and returns its refusal, or that of one too many. */
    count(group: string, refusal: Refusal): Refusal {
      noteFailedLogin(group);
      const { allowed, retryAfterSeconds } = windows.take(group, clock.monotonicMs());
      const wait = `Too many logins from your address failed: wait ${retryAfterSeconds} seconds`;
      return allowed ? refusal : refuse("RATE_LIMIT_EXCEEDED", wait, { retryAfterSeconds });
    },
  };
}

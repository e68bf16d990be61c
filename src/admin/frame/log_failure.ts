import type { Context } from "hono";
import { type Refusal, refuse } from "../../base/refusal.ts";
import { redactKeys } from "../../base/secrets/mod.ts";
import { DatabaseUnavailable, isStopped } from "../../database/mod.ts";
import { statusOf, toFailure } from "../../wire/mod.ts";
import type { AdminEnv, AdminOptions } from "./options.ts";

const SLOW_READ = refuse(
  "SERVICE_UNAVAILABLE",
  "Cannot answer: the database needs more than 2 seconds, so the statement was stopped; narrow the filter or the " +
    "search, or try again when the database has less to do",
);
export const SLOW_CHANGE = refuse(
  "SERVICE_UNAVAILABLE",
  "Cannot make this change: the database needs more than 2 seconds, so the statement was stopped, and nothing was " +
    "changed; try again",
);

const MADE = refuse(
  "SERVICE_UNAVAILABLE",
  "The change was made, but the database did not answer in time when its result was read: read the result again",
);

/** Returns the refusal for an exception, and logs an exception that nobody expected. */
export function logFailure(error: Error, c: Context<AdminEnv>, { log }: AdminOptions): Refusal {
  if (isStopped(error)) return c.req.method === "GET" ? SLOW_READ : SLOW_CHANGE;
  const failure = toFailure(error);
  if (statusOf(failure.code) === 500) {
    const reason = redactKeys(String(error));
    log.error("A request of an operator failed", { request: c.get("requestId"), reason }, { kind: {} });
  }
  return failure;
}

/**
 * Reads the result of a change that was made. If the database does not answer, the refusal says that the change was
 * made, because the usual refusal of a slow statement says that nothing was changed.
 */
export async function readAfterChange<Result>(read: () => Promise<Result>): Promise<Result | Refusal> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof DatabaseUnavailable) return MADE;
    throw error;
  }
}

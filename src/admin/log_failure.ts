import type { Context } from "hono";
import type { Refusal } from "../refusal.ts";
import { redactKeys } from "../secrets/mod.ts";
import { statusOf, toFailure } from "../wire/mod.ts";
import type { AdminEnv, AdminOptions } from "./options.ts";

/** Returns the refusal for an exception, and logs an exception that nobody expected. */
export function logFailure(error: Error, c: Context<AdminEnv>, { log }: AdminOptions): Refusal {
  const failure = toFailure(error);
  if (statusOf(failure.code) === 500) {
    const reason = redactKeys(String(error));
    log.error("A request of an operator failed", { request: c.get("requestId"), reason }, { kind: {} });
  }
  return failure;
}

/**
 * The headers that every answer has.
 *
 * To make them anew for each would take longer than all that decides about the request. So answers with a
 * window share one `Headers`, and so do those without: what differs from the answer before is set in it, which
 * is the identifier alone as a rule, and the `Response` takes a copy.
 */
import { toResetAt, type Verdict } from "../limits/mod.ts";

const COMMON = {
  "Content-Type": "application/json",
  "Cache-Control": "no-store",
  "X-Content-Type-Options": "nosniff",
};

export interface HeadersOptions {
  /** `req_…`. */
  readonly id: string;
  /** The window that the request was counted in; one that is switched off is not shown. */
  readonly verdict: Verdict | undefined;
  /** The wall clock's time. */
  readonly atMs: number;
}

const unlimited = new Headers(COMMON);
const limited = new Headers(COMMON);
let limit = Number.NaN;
let remaining = Number.NaN;
let resetAt = Number.NaN;

/** The headers of an answer: to be copied before the next one asks for its own, and not to be changed. */
export function headersFor({ id, verdict, atMs }: HeadersOptions): Headers {
  if (verdict === undefined || verdict.limit === 0) {
    unlimited.set("X-Request-Id", id);
    return unlimited;
  }
  limited.set("X-Request-Id", id);
  if (verdict.limit !== limit) {
    limit = verdict.limit;
    limited.set("X-RateLimit-Limit", String(limit));
  }
  if (verdict.remaining !== remaining) {
    remaining = verdict.remaining;
    limited.set("X-RateLimit-Remaining", String(remaining));
  }
  const at = toResetAt(verdict, atMs);
  if (at !== resetAt) {
    resetAt = at;
    limited.set("X-RateLimit-Reset", String(at));
  }
  return limited;
}

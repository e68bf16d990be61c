/**
 * Makes the headers that every answer has.
 *
 * Creating a `Headers` takes longer than all checks of a request together. So this file keeps two: one for answers
 * with a rate limit and one for the others. Before each answer it sets only the values that differ from the previous
 * answer, usually only the identifier. Only copies leave this file.
 */
import { toResetAt, type Verdict } from "../base/rate_limits/mod.ts";

/** After this time a connection without a request is closed; Bun's timer is up to 2 s early or late. */
export const IDLE_TIMEOUT_SECONDS = 30;
/** Clients are told a shorter time, so that they send no request while the connection is being closed. */
const ANNOUNCED_IDLE_SECONDS = IDLE_TIMEOUT_SECONDS - 5;

const COMMON = {
  "Content-Type": "application/json",
  "Cache-Control": "no-store",
  "X-Content-Type-Options": "nosniff",
  "Keep-Alive": `timeout=${ANNOUNCED_IDLE_SECONDS}`,
};

interface HeadersOptions {
  /** The identifier of the request, `req_…`. */
  readonly id: string;
  /** The state of the window that counted the request; without a limit it is not shown. */
  readonly verdict: Verdict | undefined;
  /** The time by the wall clock. */
  readonly atMs: number;
}

interface JsonResponseOptions extends HeadersOptions {
  readonly status: number;
}

/** Returns a response with JSON text and no other headers. */
export function newJsonResponse(json: string, options: JsonResponseOptions): Response {
  return new Response(json, { status: options.status, headers: copyIfShared(update(options)) });
}

/** Returns the headers of an answer. The caller may add its own. */
export function newHeaders(options: HeadersOptions): Headers {
  return new Headers(update(options));
}

const unlimited = new Headers(COMMON);
const limited = new Headers(COMMON);
let limit = Number.NaN;
let remaining = Number.NaN;
let resetAt = Number.NaN;

/** Sets the values of one answer in the kept headers; the next call overwrites them. */
function update({ id, verdict, atMs }: HeadersOptions): Headers {
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

/**
 * Headers that are safe to pass to `new Response`. The standard class copies them; the replacement that
 * @hono/node-server installs when it begins to listen keeps the reference, so there they are copied first.
 */
function copyIfShared(headers: Headers): Headers {
  isShared ??= new Response(null, { headers }).headers === headers;
  return isShared ? new Headers(headers) : headers;
}

let isShared: boolean | undefined;

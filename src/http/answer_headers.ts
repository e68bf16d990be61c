/**
 * The headers that every answer has.
 *
 * To make a `Headers` takes longer than all checks of a request together. So this file keeps two: one for answers
 * with a window and one for the others. Before each answer it sets only the values that differ from the answer
 * before, which is as a rule the identifier alone. Only copies leave this file.
 */
import { toResetAt, type Verdict } from "../limits/mod.ts";

/** After how long a connection without a request ends; Bun's timer is up to 2 s early or late. */
export const IDLE_TIMEOUT_SECONDS = 30;
/** What clients are told, so that no request is sent while its connection is being closed. */
const ANNOUNCED_IDLE_SECONDS = IDLE_TIMEOUT_SECONDS - 5;

const COMMON = {
  "Content-Type": "application/json",
  "Cache-Control": "no-store",
  "X-Content-Type-Options": "nosniff",
  "Keep-Alive": `timeout=${ANNOUNCED_IDLE_SECONDS}`,
};

export interface HeadersOptions {
  /** `req_…`. */
  readonly id: string;
  /** The window that the request was counted in; one that is switched off is not shown. */
  readonly verdict: Verdict | undefined;
  /** The wall clock's time. */
  readonly atMs: number;
}

export interface JsonOptions extends HeadersOptions {
  readonly status: number;
}

/** Makes a response of JSON text with no other headers. */
export function newJsonResponse(json: string, options: JsonOptions): Response {
  return new Response(json, { status: options.status, headers: copyIfShared(update(options)) });
}

/** Makes the headers of an answer, for the caller to add its own. */
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

/**
 * One request, the facts that were found out about it, and its response.
 *
 * Handlers return a {@linkcode Reply} or a refusal. Only this file turns them into responses, with the headers that
 * every answer has.
 */
import type { Context } from "hono";
import type { Clock } from "../base/clock.ts";
import { newRequestId } from "../base/ids.ts";
import type { Peer } from "../base/platform/mod.ts";
import type { Verdict } from "../base/rate_limits/mod.ts";
import { isRefusal, type Refusal } from "../base/refusal.ts";
import type { KeyRecord } from "../licensing/keys/mod.ts";
import { hasTrailers, newHeaders, newJsonResponse, renderError, statusOf } from "../wire/mod.ts";

/** The body of an answer that is a part of a file. */
interface FileBytes {
  readonly sizeBytes: number;
  /**
   * The bytes. The handler opens them, so an error there is answered, counted and logged as a failure. Null if
   * only the headers are sent.
   */
  readonly content: Blob | ReadableStream<Uint8Array> | null;
}

/** A success: its status, and its body as JSON text or as bytes of a file. A 304 is sent without the body. */
export interface Reply {
  readonly status: 200 | 202 | 206 | 304 | 503;
  readonly body: string | FileBytes;
  /** Headers in addition to those of every answer, or in place of them. */
  readonly headers?: Readonly<Record<string, string>>;
}

export type Outcome = Reply | Refusal;

/** Returns a success with the value as JSON; its status is 200 by default. */
export function reply(value: unknown, status: Reply["status"] = 200): Reply {
  return { status, body: JSON.stringify(value) };
}

/** The values that the platform passes to Hono with each request: `c.env` is the other end of the connection. */
export interface HttpEnv {
  Bindings: Peer;
}

export class Exchange {
  readonly context: Context<HttpEnv>;
  readonly request: Request;
  readonly id = newRequestId();
  readonly beganMs: number;
  /** The time from the request's arrival to its outcome. */
  durationMs = 0;
  /** When the look-up of the key began, by the monotonic clock. */
  lookUpBeganMs: number | undefined;
  /** The state of the window that counted the request, at the time of counting. */
  verdict: Verdict | undefined;
  /** The group of the client address, kept after the first look-up: a closed connection has no address any more. */
  address: string | undefined;
  /** The key of the request, if it was issued. */
  record: KeyRecord | undefined;
  /** Takes back the count of the events of a batch, for an answer that the service itself could not give. */
  takeBackEvents: (() => void) | undefined;
  /** How many events of a batch were refused because the month's quota was used up. */
  eventsOverQuota = 0;
  /** Only for a 405: the methods that the path accepts. */
  allow: string | undefined;
  /** Only for a 416: the length of the file. */
  contentRange: string | undefined;

  constructor(context: Context<HttpEnv>, clock: Clock) {
    this.context = context;
    this.request = context.req.raw;
    this.beganMs = clock.monotonicMs();
  }

  /** Returns the address of the other end of the connection; empty after the connection is closed. */
  peerAddress(): string {
    return this.context.env.address(this.request);
  }

  /** Tells whether the whole answer was sent, or the client has gone: until then the other end has an address. */
  isOver(): boolean {
    return this.peerAddress() === "";
  }
}

/** How long a client should wait when the database does not answer: the service asks it four times a second. */
const UNAVAILABLE_RETRY_SECONDS = 1;

interface ResponseOptions {
  /** The time by the wall clock. */
  readonly atMs: number;
  /** True if the connection is closed after this answer. */
  readonly isLast: boolean;
}

/** Returns the response for the outcome of an exchange. */
export function toResponse(
  exchange: Exchange,
  outcome: Outcome,
  { atMs, isLast }: ResponseOptions,
): Response {
  const { id, verdict, request } = exchange;
  const { method } = request;
  const isRefused = isRefusal(outcome);
  const status = isRefused ? statusOf(outcome.code) : outcome.status;
  const body = isRefused ? renderError(outcome) : outcome.body;
  const own = isRefused ? headersOf(outcome, exchange) : outcome.headers;
  // After CONNECT with an address, Bun 1.4.5 reads no more from the connection, so its client would wait for ever.
  // And Bun reads trailers as the next request.
  const closes = isLast || (isRefused && (method === "CONNECT" || hasTrailers(request)));
  const isPlain = typeof body === "string" && own === undefined && !closes;
  if (isPlain && method !== "HEAD" && status !== 304) {
    return newJsonResponse(body, { status, id, verdict, atMs });
  }
  const headers = newHeaders({ id, verdict, atMs });
  for (const name in own) headers.set(name, own[name] ?? "");
  if (closes) {
    headers.delete("Keep-Alive");
    headers.set("Connection", "close");
  }
  // Bun 1.4.5 adds `Date` to all other answers.
  if (method === "HEAD") headers.set("Date", new Date(atMs).toUTCString());
  return respond(exchange, body, { status, headers });
}

/** Returns the headers that only refusals with this code have. */
function headersOf(
  { code, retryAfterSeconds }: Refusal,
  { verdict, allow = "", contentRange = "" }: Exchange,
): Reply["headers"] {
  switch (code) {
    case "RATE_LIMIT_EXCEEDED":
      return { "Retry-After": String(retryAfterSeconds ?? verdict?.retryAfterSeconds ?? 1) };
    case "SERVICE_UNAVAILABLE":
      return { "Retry-After": String(retryAfterSeconds ?? UNAVAILABLE_RETRY_SECONDS) };
    case "MACHINE_LIMIT_REACHED":
    case "RELEASE_LIMIT_REACHED":
    case "NOT_CONFIGURED":
      return retryAfterSeconds === undefined ? undefined : { "Retry-After": String(retryAfterSeconds) };
    case "UNSUPPORTED_MEDIA_TYPE":
      // The header tells the client that the encoding was refused, not the type. Source: RFC 9110, 15.5.16.
      return { "Accept-Encoding": "identity" };
    case "METHOD_NOT_ALLOWED":
      return { Allow: allow };
    case "RANGE_NOT_SATISFIABLE":
      return { "Content-Range": contentRange };
    default:
      return undefined;
  }
}

interface Head {
  readonly status: number;
  readonly headers: Headers;
}

function respond({ request }: Exchange, body: string | FileBytes, { status, headers }: Head): Response {
  if (status === 304) return new Response(null, { status, headers });
  const isFile = typeof body !== "string";
  if (request.method !== "HEAD" && !isFile) return new Response(body, { status, headers });
  // The length of the answer to GET: without this line the runtime sends 0, and Node sends none for a file.
  headers.set("Content-Length", String(isFile ? body.sizeBytes : Buffer.byteLength(body)));
  if (request.method === "HEAD" || !isFile) return new Response(null, { status, headers });
  return new Response(body.content, { status, headers });
}

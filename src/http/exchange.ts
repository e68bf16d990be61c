/**
 * One request and what has been found out about it, on its way to one answer.
 *
 * Handlers return a {@linkcode Reply} or a refusal; this file turns either into the response, with the
 * headers that every answer carries, and is the only one that makes what is sent.
 */
import type { Context } from "hono";
import type { Clock } from "../clock.ts";
import { newRequestId } from "../ids.ts";
import type { KeyRecord } from "../keys/mod.ts";
import type { Verdict } from "../limits/mod.ts";
import type { Peer } from "../platform/mod.ts";
import { isRefusal, type Refusal } from "../refusal.ts";
import { newHeaders, newJsonResponse } from "./answer_headers.ts";
import { renderError, statusOf } from "./error_response.ts";

import { hasTrailers } from "./read_body.ts";

/** A part of a file on its way out. */
export interface FileBytes {
  readonly sizeBytes: number;
  /**
   * Opened by the handler: what fails there is answered, counted and logged as a failure. Null where the head
   * alone is sent.
   */
  readonly content: Blob | ReadableStream<Uint8Array> | null;
}

/** A success: its status and its body, JSON text or a file's bytes; a 304 is sent without the body. */
export interface Reply {
  readonly status: 200 | 202 | 206 | 304 | 503;
  readonly body: string | FileBytes;
  /** Over those that every answer has. */
  readonly headers?: Readonly<Record<string, string>>;
}

export type Outcome = Reply | Refusal;

/** Shows a value as a success; 200 by default. */
export function reply(value: unknown, status: Reply["status"] = 200): Reply {
  return { status, body: JSON.stringify(value) };
}

/** What the platform hands to Hono with each request: `c.env` is the other end of the connection. */
export interface HttpEnv {
  Bindings: Peer;
}

export class Exchange {
  readonly context: Context<HttpEnv>;
  readonly request: Request;
  readonly id = newRequestId();
  readonly beganMs: number;
  /** How long it took to come to an outcome. */
  durationMs = 0;
  /** The window that the request was counted in, as it was then. */
  verdict: Verdict | undefined;
  /** The group of addresses that it came from, once somebody asked: a client that hung up has none left. */
  address: string | undefined;
  /** The key that it carried, where that is one that was issued. */
  record: KeyRecord | undefined;
  /** What only a 405 says: the methods that the path takes. */
  allow: string | undefined;
  /** What only a 416 says: how long the file is. */
  contentRange: string | undefined;

  constructor(context: Context<HttpEnv>, clock: Clock) {
    this.context = context;
    this.request = context.req.raw;
    this.beganMs = clock.monotonicMs();
  }

  /** The address of the other end of the connection; empty once it is gone. */
  peerAddress(): string {
    return this.context.env.address(this.request);
  }
}

/** How long a client should wait when the database is away: it is asked four times a second. */
const UNAVAILABLE_RETRY_SECONDS = "1";

export interface ResponseOptions {
  /** The wall clock's time. */
  readonly atMs: number;
  /** True where the connection shall not be used again. */
  readonly isLast: boolean;
}

/** Makes the response of an exchange. */
export function toResponse(
  exchange: Exchange,
  outcome: Outcome,
  { atMs, isLast }: ResponseOptions,
): Response {
  const { id, verdict } = exchange;
  const { method } = exchange.request;
  if (!isRefusal(outcome)) {
    const { status, body } = outcome;
    if (
      typeof body === "string" &&
      outcome.headers === undefined &&
      !isLast &&
      method !== "HEAD" &&
      status !== 304
    ) {
      return newJsonResponse(body, { status, id, verdict, atMs });
    }
    const headers = newHeaders({ id, verdict, atMs });
    for (const name in outcome.headers) headers.set(name, outcome.headers[name] ?? "");
    if (isLast) closeAfter(headers);
    if (method === "HEAD") headers.set("Date", new Date(atMs).toUTCString());
    return respond(exchange, body, { status, headers });
  }
  const headers = newHeaders({ id, verdict, atMs });
  // Bun 1.4.5 adds it to all other answers.
  if (method === "HEAD") headers.set("Date", new Date(atMs).toUTCString());
  // Bun 1.4.5 reads nothing more of a connection after CONNECT with an address: its client would wait for ever. And Bun
  // reads trailers as the next request.
  if (isLast || method === "CONNECT" || hasTrailers(exchange.request)) closeAfter(headers);
  switch (outcome.code) {
    case "RATE_LIMIT_EXCEEDED":
      headers.set("Retry-After", String(exchange.verdict?.retryAfterSeconds ?? 1));
      break;
    case "SERVICE_UNAVAILABLE":
      headers.set("Retry-After", UNAVAILABLE_RETRY_SECONDS);
      break;
    case "NOT_CONFIGURED":
      if (outcome.retryAfterSeconds !== undefined)
        headers.set("Retry-After", String(outcome.retryAfterSeconds));
      break;
    case "UNSUPPORTED_MEDIA_TYPE":
      // Source: RFC 9110, 15.5.16: so a client knows that the coding was refused and not the type.
      headers.set("Accept-Encoding", "identity");
      break;
    case "METHOD_NOT_ALLOWED":
      headers.set("Allow", exchange.allow ?? "");
      break;
    case "RANGE_NOT_SATISFIABLE":
      headers.set("Content-Range", exchange.contentRange ?? "");
      break;
  }
  return respond(exchange, renderError(outcome), { status: statusOf(outcome.code), headers });
}

function closeAfter(headers: Headers): void {
  headers.delete("Keep-Alive");
  headers.set("Connection", "close");
}

interface Head {
  readonly status: number;
  readonly headers: Headers;
}

function respond({ request }: Exchange, body: string | FileBytes, { status, headers }: Head): Response {
  if (status === 304) return new Response(null, { status, headers });
  const isFile = typeof body !== "string";
  if (request.method !== "HEAD" && !isFile) return new Response(body, { status, headers });
  // The length that GET would have: left to itself, the runtime says 0, and Node none for a file.
  headers.set("Content-Length", String(isFile ? body.sizeBytes : Buffer.byteLength(body)));
  if (request.method === "HEAD" || !isFile) return new Response(null, { status, headers });
  return new Response(body.content, { status, headers });
}

/**
 * The job that the load gets and the result that it returns. Both are plain data, since they go between
 * processes.
 */
import { benchKey, type KeyOrder, type KeySet, keyNumbers } from "./bench_keys.ts";

export type RequestKind = "validate" | "refresh" | "models" | "event" | "claimed_event";

export interface LoadJob {
  readonly host: string;
  readonly port: number;
  readonly request: RequestKind;
  readonly keys: KeySet;
  readonly order: KeyOrder;
  /** Each connection has at most one open request. */
  readonly connections: number;
  /** How long requests are sent and checked before the measurement begins. */
  readonly warmUpMs: number;
  readonly span: /** As many requests as are answered in that time. */
    | { readonly kind: "time"; readonly ms: number }
    /** That many requests. */
    | { readonly kind: "count"; readonly requests: number }
    /**
     * So many requests a second, at times that are fixed beforehand and do not depend on the answers. Latency counts from
     * the time at which a request was due, so it includes the wait for a free connection.
     */
    | { readonly kind: "schedule"; readonly ms: number; readonly perSecond: number }
    /**
     * The same, but with those of a millisecond together, so that the load pauses between them and leaves its core to
     * others. Latency counts from the sending.
     */
    | { readonly kind: "bursts"; readonly ms: number; readonly perSecond: number };
  /** Processes whose CPU time is measured too: `service` alone, `database` with all its descendants. */
  readonly service?: number;
  readonly database?: number;
}

export interface LoadResult {
  /** Requests that were answered during the measurement. */
  readonly requests: number;
  readonly seconds: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** All answered requests, including those before and after the measurement. */
  readonly answered: number;
  /** For a schedule: how late requests were sent although a connection was free, 99th percentile. */
  readonly lateP99Ms: number;
  /** Seconds of CPU during the measurement; NaN, and so null in JSON, for a process that was not named. */
  readonly loadCpu: number;
  readonly serviceCpu: number;
  readonly databaseCpu: number;
  /** The CPU time of all other processes on the machine. If it is large, the figures are unreliable. */
  readonly othersCpu: number;
}

/** A job for PostgreSQL alone, which stores events. Its result has the form of a {@linkcode LoadResult}. */
export interface StoreJob {
  /** `rows` only inserts the events; `commit` is the service's own statement. */
  readonly statement: "rows" | "commit";
  /** Events per statement: the mean of the service's batches, which differ in size. */
  readonly batch: number;
  /** How long events are stored before the measurement begins. */
  readonly warmUpMs: number;
  readonly ms: number;
}

/** The event in each request that sends one. */
export const EVENT = { event_type: "inference", model_name: "p300_binary_v1", duration_ms: 12.5 } as const;

/** Returns the status of a success. */
export function expectedStatus(request: RequestKind): number {
  return request === "event" || request === "claimed_event" ? 202 : 200;
}

/** Prepared requests, all of the same length. */
export interface Requests {
  readonly bytes: Buffer;
  readonly count: number;
  readonly stride: number;
  /** The offset in each request of the digits that make its claim unique; -1 if it has none. */
  readonly claimAt: number;
}

export const CLAIM_DIGITS = 16;

/** Makes the requests of a job, in the order in which they are sent. */
export function makeRequests({
  request,
  keys,
  order,
}: Pick<LoadJob, "request" | "keys" | "order">): Requests {
  const numbers = [...keyNumbers(keys, order)];
  const first = renderRequest(request, benchKey(0));
  const stride = first.length;
  const bytes = Buffer.allocUnsafe(stride * numbers.length);
  for (const [index, number] of numbers.entries()) {
    bytes.write(renderRequest(request, benchKey(number)), index * stride, "latin1");
  }
  const claimAt = first.indexOf(CLAIM_PLACE);
  return { bytes, count: numbers.length, stride, claimAt };
}

const CLAIM_PLACE = "0".repeat(CLAIM_DIGITS);

function renderRequest(request: RequestKind, apiKey: string): string {
  switch (request) {
    case "validate":
      return post("/v1/auth/validate", { api_key: apiKey });
    case "refresh":
      return post("/v1/auth/refresh", { api_key: apiKey });
    case "event":
    case "claimed_event": {
      const event = { api_key: apiKey, ...EVENT };
      const claim = request === "event" ? "" : `Idempotency-Key: ${CLAIM_PLACE}\r\n`;
      return post("/v1/analytics/log", event, claim);
    }
    case "models":
      return `GET /v1/models/list?api_key=${apiKey} HTTP/1.1\r\nHost: claviger\r\n\r\n`;
  }
}

function post(path: string, value: object, headers = ""): string {
  const body = JSON.stringify(value);
  const head = `POST ${path} HTTP/1.1\r\nHost: claviger\r\nContent-Type: application/json\r\n`;
  return `${head}${headers}Content-Length: ${body.length}\r\n\r\n${body}`;
}

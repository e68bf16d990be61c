/** What the load is asked to do and what it says afterwards; plain data, since it goes between processes. */
import { benchKey, type KeyOrder, type KeySet, keyNumbers } from "./bench_keys.ts";

export type RequestKind = "validate" | "refresh" | "models" | "repo_token" | "event" | "claimed_event";

export interface LoadJob {
  readonly host: string;
  readonly port: number;
  readonly request: RequestKind;
  readonly keys: KeySet;
  readonly order: KeyOrder;
  /** Each has one request under way at most. */
  readonly connections: number;
  /** Sent and checked, but not measured. */
  readonly warmUpMs: number;
  readonly span: /** As many requests as are answered in that time. */
    | { readonly kind: "time"; readonly ms: number }
    /** That many requests. */
    | { readonly kind: "count"; readonly requests: number }
    /**
     * So many a second at times that are fixed beforehand, whatever the answers take. Latency counts from the
     * time at which a request was due: one that had to wait for others has waited.
     */
    | { readonly kind: "schedule"; readonly ms: number; readonly perSecond: number };
  /** Processes whose use of the CPU is measured along: one by itself, and one with all below it. */
  readonly service?: number;
  readonly database?: number;
}

export interface LoadResult {
  /** Answered while it was measured. */
  readonly requests: number;
  readonly seconds: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Answered at all, while it warmed up and after it was measured too. */
  readonly answered: number;
  /** Of a schedule: how late the requests were sent for which a connection was free, 99th percentile. */
  readonly lateP99Ms: number;
  /** Seconds of CPU while it was measured; NaN, and so null in JSON, for what was not asked for. */
  readonly loadCpu: number;
  readonly serviceCpu: number;
  readonly databaseCpu: number;
  /** What everything else on the machine used meanwhile: where that is much, the figures are not worth much. */
  readonly othersCpu: number;
}

/** What PostgreSQL alone is asked to do with events: its result has the same form. */
export interface StoreJob {
  /** `rows` inserts the events and does nothing else; `commit` is the service's own statement. */
  readonly statement: "rows" | "commit";
  /** Events of a statement: the mean of the service's batches, which differ in size. */
  readonly batch: number;
  /** Stored, but not measured. */
  readonly warmUpMs: number;
  readonly ms: number;
}

/** The event of each request that sends one. */
export const EVENT = { event_type: "inference", model_name: "p300_binary_v1", duration_ms: 12.5 } as const;

/** What a success is. */
export function expectedStatus(request: RequestKind): number {
  return request === "event" || request === "claimed_event" ? 202 : 200;
}

/** Requests ready to be sent, all of one length. */
export interface Requests {
  readonly bytes: Buffer;
  readonly count: number;
  readonly stride: number;
  /** Where in each one the digits begin that make its claim unique; -1 where there is none. */
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
    case "repo_token":
      return `GET /v1/installer/repo-token HTTP/1.1\r\nHost: claviger\r\nX-API-Key: ${apiKey}\r\n\r\n`;
  }
}

function post(path: string, value: object, headers = ""): string {
  const body = JSON.stringify(value);
  const head = `POST ${path} HTTP/1.1\r\nHost: claviger\r\nContent-Type: application/json\r\n`;
  return `${head}${headers}Content-Length: ${body.length}\r\n\r\n${body}`;
}

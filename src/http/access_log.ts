/**
 * One line a request that somebody will want to read: refusals, changes, slow and failed requests always,
 * successes by the setting, one in a hundred by default. One line counts the refusals of one kind from one group of
 * addresses, and the failures of one kind, beyond ten in a second (see `log.ts`). Never a key: the key's identifier stands for it, and query
 * strings are blanked.
 */
import { routePath } from "hono/route";
import { toId } from "../ids.ts";
import type { LineGroup, Log, LogFields, LogRequests } from "../log.ts";
import { isRefusal } from "../refusal.ts";
import { redactQuery } from "../secrets/mod.ts";
import { statusOf, toWireCode } from "./error_response.ts";
import type { Exchange, Outcome } from "./exchange.ts";
import { targetOf } from "./target.ts";

export interface AccessLogOptions {
  readonly log: Log;
  readonly requests: LogRequests;
  /** From when on a request counts as slow. */
  readonly slowMs: number;
  readonly addressOf: (exchange: Exchange) => string;
}

/** What the log says of where a request went. */
export interface LoggedRoute {
  readonly endpoint: string;
  /** True where a success changes something, and so is always logged. */
  readonly isChange?: boolean;
}

export type AccessLog = (exchange: Exchange, outcome: Outcome, route: LoggedRoute) => void;

const SAMPLE = 100;

/** One in how many successes is logged; none for 0. */
function toEvery(requests: LogRequests): number {
  if (requests === "off") return 0;
  if (requests === "all") return 1;
  return requests === "sampled" ? SAMPLE : Number(requests.slice(2));
}

export function createAccessLog({ log, requests, slowMs, addressOf }: AccessLogOptions): AccessLog {
  const every = toEvery(requests);
  let successes = 0;

  return (exchange, outcome, { endpoint, isChange }) => {
    const { durationMs, record } = exchange;
    const isSuccess = !isRefusal(outcome);
    if (isSuccess && !isChange && durationMs < slowMs) {
      // The first of them is, so that a log shows that there are any.
      if (every === 0 || successes++ % every !== 0) return;
    }
    const { request } = exchange;
    const target = targetOf(request.url);
    const status = isSuccess ? outcome.status : statusOf(outcome.code);
    const code = isSuccess ? undefined : toWireCode(outcome.code);
    const reason = isSuccess ? undefined : outcome.reason;
    const address = addressOf(exchange);
    const write = status >= 500 ? log.warn : log.info;
    write(
      "request",
      {
        request: exchange.id,
        endpoint,
        method: request.method,
        // The path of a route without a query needs no redaction: most are that.
        path: target === routePath(exchange.context) ? target : renderTarget(target),
        status,
        code,
        reason,
        ms: Math.round(durationMs * 10) / 10,
        key: record && toId("key", record.uuid),
        address,
      },
      toGroup({ endpoint, status, code, reason }, address),
    );
  };
}

/** A failure of the service meets all clients alike, so their addresses make no groups. */
function toGroup(kind: LogFields & { readonly status: number }, address: string): LineGroup | undefined {
  if (kind.status < 400) return undefined;
  return kind.status < 500 ? { kind, address } : { kind };
}

/** A stranger chooses the path, so a longer one is cut, and its length is written behind it. */
const MAX_TARGET_CHARACTERS = 200;

function renderTarget(target: string): string {
  const shown = redactQuery(target);
  const isWhole = shown.startsWith("/") && shown.length <= MAX_TARGET_CHARACTERS;
  return isWhole || target.length <= MAX_TARGET_CHARACTERS
    ? shown
    : `${shown.slice(0, MAX_TARGET_CHARACTERS)}… (${target.length} characters)`;
}

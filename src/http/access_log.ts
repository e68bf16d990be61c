/**
 * One line a request that somebody will want to read: refusals, changes, slow and failed requests always,
 * successes by the setting, one in a hundred by default. Never a key: the key's identifier stands for it,
 * and query strings are blanked.
 */
import type { Clock } from "../clock.ts";
import type { Log, LogRequests } from "../log.ts";
import { isRefusal } from "../refusal.ts";
import { redactQuery } from "../secrets/mod.ts";
import { statusOf } from "./error_response.ts";
import type { Exchange, Outcome } from "./exchange.ts";

export interface AccessLogOptions {
  readonly log: Log;
  readonly clock: Clock;
  readonly requests: LogRequests;
  readonly addressOf: (exchange: Exchange) => string;
}

export type AccessLog = (exchange: Exchange, outcome: Outcome, isChange: boolean) => void;

const SLOW_MS = 500;
const SAMPLE = 100;

export function createAccessLog({ log, clock, requests, addressOf }: AccessLogOptions): AccessLog {
  let successes = 0;

  return (exchange, outcome, isChange) => {
    const durationMs = clock.monotonicMs() - exchange.beganMs;
    const isSuccess = !isRefusal(outcome);
    if (isSuccess && !isChange && durationMs < SLOW_MS) {
      successes++;
      if (requests === "off" || (requests === "sampled" && successes % SAMPLE !== 1)) return;
    }
    const { request } = exchange;
    const status = isSuccess ? outcome.status : statusOf(outcome.code);
    const write = status >= 500 ? log.warn : log.info;
    write("request", {
      request: exchange.id,
      method: request.method,
      path: redactQuery(pathOf(request.url)),
      status,
      code: isSuccess ? undefined : outcome.code,
      ms: Math.round(durationMs * 10) / 10,
      key: exchange.record?.id,
      address: addressOf(exchange),
    });
  };
}

/** The path with its query: what follows the third slash of an absolute address. */
function pathOf(url: string): string {
  const begin = url.indexOf("/", url.indexOf("//") + 2);
  return begin === -1 ? "/" : url.slice(begin);
}

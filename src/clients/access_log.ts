/**
 * Writes one line for each request that an operator may want to read. Refusals, changes, slow requests and failures
 * are always logged; of the successes, the setting decides how many are: one in a hundred by default.
 *
 * From the eleventh in one second on, refusals of one kind from one group of addresses share one line that counts
 * them, and so do failures of one kind (see `log.ts`). The log never holds a key: it holds the key's identifier, and
 * query strings are blanked.
 */
import { routePath } from "hono/route";
import { toId } from "../base/ids.ts";
import type { LineGroup, LogFields, LogRequests } from "../base/log.ts";
import { isRefusal } from "../base/refusal.ts";
import { redactQuery } from "../base/secrets/mod.ts";
import { statusOf, targetOf, toWireCode } from "../wire/mod.ts";
import type { Exchange, Outcome } from "./exchange.ts";
import type { HandlerDeps } from "./handler.ts";

/** The facts about the route of a request that the log shows. */
export interface LoggedRoute {
  readonly endpoint: string;
  /** True if a success changes something; then each success is logged. */
  readonly isChange?: boolean;
}

type AccessLog = (exchange: Exchange, outcome: Outcome, route: LoggedRoute) => void;

const SAMPLE = 100;

/** Returns the N of "one in N successes is logged"; 0 means that no success is logged. */
function toEvery(requests: LogRequests): number {
  if (requests === "off") return 0;
  if (requests === "all") return 1;
  return requests === "sampled" ? SAMPLE : Number(requests.slice(2));
}

/** Creates the function that logs a request after its outcome is known. */
export function createAccessLog({ log, logRequests, logSlowMs, authenticator }: HandlerDeps): AccessLog {
  const every = toEvery(logRequests);
  let successes = 0;

  return (exchange, outcome, { endpoint, isChange }) => {
    const { durationMs, record } = exchange;
    const isSuccess = !isRefusal(outcome);
    if (isSuccess && !isChange && durationMs < logSlowMs) {
      // The first success is logged, so that the log shows that requests succeed.
      if (every === 0 || successes++ % every !== 0) return;
    }
    const { request } = exchange;
    const target = targetOf(request.url);
    const status = isSuccess ? outcome.status : statusOf(outcome.code);
    const code = isSuccess ? undefined : toWireCode(outcome.code);
    const reason = isSuccess ? undefined : outcome.reason;
    const address = authenticator.addressOf(exchange);
    const write = status >= 500 ? log.warn : log.info;
    write(
      "request",
      {
        request: exchange.id,
        endpoint,
        method: request.method,
        // A target that is exactly the path of a route holds no secret, and most targets are.
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

/** Returns the group of a line. Failures are not grouped by address: a failure of the service hits all clients. */
function toGroup(kind: LogFields & { readonly status: number }, address: string): LineGroup | undefined {
  if (kind.status < 400) return undefined;
  return kind.status < 500 ? { kind, address } : { kind };
}

/** A longer path is cut, and its length is written after it: any sender can choose the path. */
const MAX_TARGET_CHARACTERS = 200;

function renderTarget(target: string): string {
  const shown = redactQuery(target);
  const isWhole = shown.startsWith("/") && shown.length <= MAX_TARGET_CHARACTERS;
  return isWhole || target.length <= MAX_TARGET_CHARACTERS
    ? shown
    : `${shown.slice(0, MAX_TARGET_CHARACTERS)}… (${target.length} characters)`;
}

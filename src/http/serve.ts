/**
 * Wraps every handler: reads the body before the handler runs, and counts, logs and answers its outcome after it.
 *
 * This is a wrapper around the handler and not a middleware: on the hot path each middleware costs more than the
 * checks of a request. Promises cost too, so the only `await` is for the body, or for the database.
 */
import type { Context, ErrorHandler, MiddlewareHandler, NotFoundHandler } from "hono";
import type { LimitedEndpoint } from "../endpoints.ts";
import { isRefusal, type Refusal, refuse } from "../refusal.ts";
import { redactKeys } from "../secrets/mod.ts";
import {
  discardBody,
  type JsonObject,
  NO_BODY,
  readJson,
  toBodyRefusal,
  toFailure,
  toJsonObject,
} from "../wire/mod.ts";
import { createAccessLog, type LoggedRoute } from "./access_log.ts";
import { Exchange, type HttpEnv, type Outcome, toResponse } from "./exchange.ts";
import type { Handler, HandlerDeps } from "./handler.ts";
import type { EndpointMetrics } from "./metrics/request_metrics.ts";

/** The name of an endpoint in log and metrics. The endpoints of `UnlimitedEndpoint` have no rate limit. */
export type Endpoint = LimitedEndpoint | UnlimitedEndpoint;

type UnlimitedEndpoint = "jwks" | "openapi" | "health";

export interface ServeOptions {
  /** True if the handler answers HEAD too. */
  readonly answersHead?: boolean;
  /** True if a success changes something; then each success is logged. */
  readonly isChange?: boolean;
}

export interface RouteHandlers {
  /** Turns a handler into a handler for Hono. */
  serve(endpoint: Endpoint, handler: Handler, options?: ServeOptions): MiddlewareHandler<HttpEnv>;
  /** Answers a method that has no route at the path: 405 with the methods that have a route. */
  allowOnly(methods: string, endpoint: Endpoint): MiddlewareHandler<HttpEnv>;
  /** Answers a path without a route. */
  readonly notFound: NotFoundHandler<HttpEnv>;
  /** Answers a request if counting, logging or answering threw an error. */
  readonly onError: ErrorHandler<HttpEnv>;
}

/** The route of a request, for the log and the metrics. */
interface MeteredRoute extends LoggedRoute {
  readonly metrics: EndpointMetrics;
}

const NOT_FOUND = refuse("NOT_FOUND", "There is nothing at this path");
/** The endpoint of all paths without a route. Any sender can make up paths, so they must not become labels. */
const OTHER = "other";

/**
 * Creates the functions that Hono calls for each route.
 *
 * One long function, because all of them share the log, the metrics and the clock.
 */
export function createRouteHandlers(deps: HandlerDeps): RouteHandlers {
  const { authenticator, clock, log, isStopping, requestMetrics } = deps;
  const accessLog = createAccessLog({
    log,
    requests: deps.logRequests,
    slowMs: deps.logSlowMs,
    addressOf: authenticator.addressOf,
  });
  const unknownRoute = { endpoint: OTHER, metrics: requestMetrics.endpoint(OTHER) };

  function respond(exchange: Exchange, outcome: Outcome): Response {
    // `isStopping` is called now, not when the request came: a request that waited must close its connection too.
    return toResponse(exchange, outcome, { atMs: clock.nowMs(), isLast: isStopping() });
  }

  function finish(route: MeteredRoute, exchange: Exchange, outcome: Outcome): Response {
    exchange.durationMs = clock.monotonicMs() - exchange.beganMs;
    route.metrics.count(outcome, exchange.durationMs);
    accessLog(exchange, outcome, route);
    return respond(exchange, outcome);
  }

  /** Counts a request that the handler did not count, and takes back the count if the database did not answer. */
  function settleCount(exchange: Exchange, outcome: Outcome, endpoint: LimitedEndpoint): void {
    // A client that retries during an outage, as Retry-After says, must not use up its window.
    if (isRefusal(outcome) && outcome.code === "SERVICE_UNAVAILABLE") {
      authenticator.takeBack(exchange, endpoint);
    } else if (exchange.verdict === undefined) {
      authenticator.countAgainstAddress(exchange, endpoint);
    }
  }

  /** Returns the refusal for an exception, and logs the exception unless the database did not respond. */
  function toOutcome(error: unknown, exchange: Exchange): Refusal {
    const outcome = toFailure(error);
    if (outcome.code === "SERVER_ERROR") {
      const reason = redactKeys(String(error));
      log.error("A request failed", { request: exchange.id, reason }, { kind: {} });
    }
    return outcome;
  }

  return {
    serve(endpoint, handler, { answersHead = false, isChange = false } = {}) {
      const route = { endpoint, isChange, metrics: requestMetrics.endpoint(endpoint) };
      const limited = isLimited(endpoint) ? endpoint : undefined;

      return async (c, next) => {
        // Hono runs the handlers of GET for HEAD too. Then HEAD would issue a token, and use up a window.
        if (c.req.method === "HEAD" && !answersHead) return next();
        const exchange = new Exchange(c, clock);
        const { request } = exchange;
        let body: JsonObject | Refusal;
        try {
          const reading = request.method === "POST" ? readJson(request) : NO_BODY;
          body = toJsonObject(reading instanceof Promise ? await reading : reading);
        } catch (error) {
          body = toBodyRefusal(error);
        }
        let outcome: Outcome;
        try {
          const finding = isRefusal(body) ? body : handler(exchange, body);
          outcome = finding instanceof Promise ? await finding : finding;
        } catch (error) {
          outcome = toOutcome(error, exchange);
        }
        if (isRefusal(outcome)) authenticator.noteRefusal(exchange, outcome);
        if (limited !== undefined) settleCount(exchange, outcome, limited);
        const response = finish(route, exchange, outcome);
        if (isRefusal(body)) await discardBody(request);
        return response;
      };
    },

    allowOnly(methods, endpoint) {
      const route = { endpoint, metrics: requestMetrics.endpoint(endpoint) };
      return (c) => {
        const exchange = new Exchange(c, clock);
        exchange.allow = methods;
        const outcome = refuse("METHOD_NOT_ALLOWED", `${c.req.method.slice(0, 20)} is not allowed here`);
        return afterBody(c, finish(route, exchange, outcome));
      };
    },

    notFound: (c) => afterBody(c, finish(unknownRoute, new Exchange(c, clock), NOT_FOUND)),

    onError: (error, c) => respond(new Exchange(c, clock), toFailure(error)),
  };
}

function isLimited(endpoint: Endpoint): endpoint is LimitedEndpoint {
  return endpoint !== "jwks" && endpoint !== "openapi" && endpoint !== "health";
}

/**
 * Returns the response after the rest of the body was read: some clients read no response before they have sent the
 * whole body.
 */
async function afterBody(c: Context<HttpEnv>, response: Response): Promise<Response> {
  await discardBody(c.req.raw);
  return response;
}

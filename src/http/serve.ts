/**
 * What happens around every handler: the body is read before it, and its outcome is counted, logged and answered
 * after it.
 *
 * A wrapper around the handler does this, not a middleware: on the hot path each middleware costs more than the
 * checks of a request. Promises cost too, so the only `await` is for the body, or for the database.
 */
import type { Context, ErrorHandler, MiddlewareHandler, NotFoundHandler } from "hono";
import type { LimitedEndpoint } from "../endpoints.ts";
import { isRefusal, type Refusal, refuse } from "../refusal.ts";
import { redactKeys } from "../secrets/mod.ts";
import { createAccessLog, type LoggedRoute } from "./access_log.ts";
import { discardBody } from "./discard_body.ts";
import { toFailure } from "./error_response.ts";
import { Exchange, type HttpEnv, type Outcome, toResponse } from "./exchange.ts";
import type { Handler, HandlerDeps } from "./handler.ts";
import type { EndpointMetrics } from "./metrics/request_metrics.ts";
import { type JsonObject, NO_BODY, readJson, toBodyRefusal, toJsonObject } from "./read_body.ts";

/** The name of an endpoint in log and metrics; all but the last two have a window. */
export type Endpoint = LimitedEndpoint | "openapi" | "health";

export interface ServeOptions {
  /** True where the handler answers HEAD too. */
  readonly answersHead?: boolean;
  /** True where a success changes something, and so is always logged. */
  readonly isChange?: boolean;
}

export interface RouteHandlers {
  /** Makes a handler into one for Hono. */
  serve(endpoint: Endpoint, handler: Handler, options?: ServeOptions): MiddlewareHandler<HttpEnv>;
  /** Answers each method that has no route at the path: 405 with the methods that have one. */
  allowOnly(methods: string, endpoint: Endpoint): MiddlewareHandler<HttpEnv>;
  /** Answers a path without a route. */
  readonly notFound: NotFoundHandler<HttpEnv>;
  /** Answers where counting, logging or answering failed itself. */
  readonly onError: ErrorHandler<HttpEnv>;
}

/** Where a request went, as log and metrics see it. */
interface MeteredRoute extends LoggedRoute {
  readonly metrics: EndpointMetrics;
}

const NOT_FOUND = refuse("NOT_FOUND", "There is nothing at this path");
/** The endpoint of all paths without a route: strangers make up paths, which must not become labels. */
const OTHER = "other";

export function createRouteHandlers(deps: HandlerDeps): RouteHandlers {
  const { authenticator, clock, log, isStopping, requestMetrics } = deps;
  const accessLog = createAccessLog({
    log,
    requests: deps.logRequests,
    slowMs: deps.logSlowMs,
    addressOf: authenticator.addressOf,
  });
  const nowhere = { endpoint: OTHER, metrics: requestMetrics.endpoint(OTHER) };

  function respond(exchange: Exchange, outcome: Outcome): Response {
    // `isStopping` is asked now, not when the request came: a request that waited must close its connection too.
    return toResponse(exchange, outcome, { atMs: clock.nowMs(), isLast: isStopping() });
  }

  function finish(route: MeteredRoute, exchange: Exchange, outcome: Outcome): Response {
    exchange.durationMs = clock.monotonicMs() - exchange.beganMs;
    route.metrics.count(outcome, exchange.durationMs);
    accessLog(exchange, outcome, route);
    return respond(exchange, outcome);
  }

  /** Counts a request that the handler did not count, and takes back the count of one that met an outage. */
  function settleCount(exchange: Exchange, outcome: Outcome, endpoint: LimitedEndpoint): void {
    // A client that tries again through an outage, as Retry-After says, must not use up its window by it.
    if (isRefusal(outcome) && outcome.code === "SERVICE_UNAVAILABLE") {
      authenticator.takeBack(exchange, endpoint);
    } else if (exchange.verdict === undefined) {
      authenticator.countAgainstAddress(exchange, endpoint);
    }
  }

  /** The refusal for an error that nobody expected. */
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
      const limited = endpoint === "openapi" || endpoint === "health" ? undefined : endpoint;

      return async (c, next) => {
        // Hono runs the handlers of GET for HEAD too, so HEAD would hand out a token, and use up a window.
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

    notFound: (c) => afterBody(c, finish(nowhere, new Exchange(c, clock), NOT_FOUND)),

    onError: (error, c) => respond(new Exchange(c, clock), toFailure(error)),
  };
}

/** Gives the response once the client can see it: the rest of its body is read before. */
async function afterBody(c: Context<HttpEnv>, response: Response): Promise<Response> {
  await discardBody(c.req.raw);
  return response;
}

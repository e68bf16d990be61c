/**
 * Wraps every handler: reads the body before the handler runs, and counts, logs and answers its outcome after it.
 *
 * This is a wrapper around the handler and not a middleware: on the hot path each middleware costs more than the
 * checks of a request. Promises cost too, so the only `await` is for the body, or for the database.
 */
import type { Context, MiddlewareHandler } from "hono";
import { bytesToRead } from "../base/rate_limits/mod.ts";
import { isRefusal, type Refusal, refuse } from "../base/refusal.ts";
import { redactKeys } from "../base/secrets/mod.ts";
import type { KeyRecord } from "../licensing/keys/mod.ts";
import type { LimitedEndpoint } from "../wire/mod.ts";
import {
  discardBody,
  type Eventually,
  type JsonObject,
  NO_BODY,
  readJson,
  toBodyRefusal,
  toFailure,
  toJsonObject,
} from "../wire/mod.ts";
import { createAccessLog, type LoggedRoute } from "./access_log.ts";
import type { BodyRoom } from "./batch_room.ts";
import { Exchange, type HttpEnv, type Outcome, type Reply, toResponse } from "./exchange.ts";
import type { Handler, HandlerDeps } from "./handler.ts";
import type { EndpointMetrics } from "./metrics/request_metrics.ts";
import type { Operations } from "./operation.ts";

/** The name of an endpoint in log and metrics. The endpoints of `UnlimitedEndpoint` have no rate limit. */
type Endpoint = LimitedEndpoint | UnlimitedEndpoint;

type UnlimitedEndpoint = "jwks" | "openapi" | "health";

/** A path with its operations. Every other method gets 405. */
export interface ClientRoute {
  readonly path: string;
  readonly endpoint: Endpoint;
  readonly operations: Operations;
  readonly handler: Handler;
  /** True if a success changes something; then each success is logged. */
  readonly isChange?: boolean;
  /**
   * Whether a success is a use of the license, with which an unstarted term starts: true by default. False also for a
   * handler that starts the term together with something else.
   */
  readonly startsTerm?: boolean;
  /** For bodies that are larger than usual: each takes room before it is read. */
  readonly bodyRoom?: BodyRoom;
}

/** Returns the methods that a route answers. */
export function methodsOf({ operations }: Pick<ClientRoute, "operations">): string[] {
  return Object.keys(operations).map((method) => method.toUpperCase());
}

/** The route of a request, for the log and the metrics. */
interface MeteredRoute extends LoggedRoute {
  readonly metrics: EndpointMetrics;
}

const NO_ROOM = refuse(
  "SERVICE_UNAVAILABLE",
  "The service has no room for another batch of events now; try again",
);
const NOT_FOUND = refuse("NOT_FOUND", "There is nothing at this path");
const NOTHING_TAKEN = () => {};
/** The endpoint of all paths without a route. Any sender can make up paths, so they must not become labels. */
const OTHER = "other";

/**
 * Creates the functions that Hono calls for each route.
 *
 * One long function, because all of them share the log, the metrics and the clock.
 */
export function createRouteHandlers(deps: HandlerDeps) {
  const { authenticator, clock, log, isStopping, requestMetrics } = deps;
  const accessLog = createAccessLog(deps);
  const unknownRoute = { endpoint: OTHER, metrics: requestMetrics.endpoint(OTHER) };

  function respond(exchange: Exchange, outcome: Outcome): Response {
    // `isStopping` is called now, not when the request came: a request that waited must close its connection too.
    return toResponse(exchange, outcome, { atMs: clock.nowMs(), isLast: isStopping() });
  }

  function finish(route: MeteredRoute, exchange: Exchange, outcome: Outcome): Response {
    exchange.durationMs = clock.monotonicMs() - exchange.beganMs;
    route.metrics.count(outcome, exchange.durationMs);
    route.metrics.eventsOverQuota += exchange.eventsOverQuota;
    accessLog(exchange, outcome, route);
    return respond(exchange, outcome);
  }

  /** Counts a request that the handler did not count, and takes back the count if the database did not answer. */
  function settleCount(exchange: Exchange, outcome: Outcome, endpoint: LimitedEndpoint): void {
    // A client that retries during an outage, as Retry-After says, must not use up its window.
    if (isRefusal(outcome) && outcome.code === "SERVICE_UNAVAILABLE") {
      authenticator.takeBack(exchange, endpoint);
      exchange.takeBackEvents?.();
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

  /** Takes room for the body of a request, of its declared size or of the largest one. */
  function takeRoom(exchange: Exchange, room: BodyRoom): (() => void) | undefined {
    return room.take(authenticator.addressOf(exchange), bytesToRead(exchange.request, room.limitBytes));
  }

  /** Starts the term of a license that is used for the first time. If that fails, the answer is not sent. */
  async function startTermOf(
    exchange: Exchange,
    { record, answer }: { readonly record: KeyRecord; readonly answer: Reply },
  ): Promise<Outcome> {
    let started: KeyRecord | Refusal;
    try {
      started = await authenticator.startTerm(exchange, record);
    } catch (error) {
      started = toOutcome(error, exchange);
    }
    if (!isRefusal(started)) return answer;
    const content = typeof answer.body === "string" ? null : answer.body.content;
    if (content instanceof ReadableStream) await content.cancel();
    return started;
  }

  return {
    /** Turns the handler of a route into a handler for Hono. */
    serve({
      operations,
      endpoint,
      handler,
      isChange = false,
      startsTerm = true,
      bodyRoom,
    }: ClientRoute): MiddlewareHandler<HttpEnv> {
      const answersHead = operations.head !== undefined;
      const route = { endpoint, isChange, metrics: requestMetrics.endpoint(endpoint) };
      const limited = isLimited(endpoint) ? endpoint : undefined;

      return async (c, next) => {
        // Hono runs the handlers of GET for HEAD too. Then HEAD would issue a token, and use up a window.
        if (c.req.method === "HEAD" && !answersHead) return next();
        const exchange = new Exchange(c, clock);
        const { request } = exchange;
        let body: JsonObject | Refusal;
        const leaveRoom = bodyRoom === undefined ? NOTHING_TAKEN : takeRoom(exchange, bodyRoom);
        try {
          let reading: Eventually<unknown> = NO_BODY;
          if (leaveRoom === undefined) reading = NO_ROOM;
          else if (request.method === "POST") reading = readJson(request, bodyRoom);
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
        const { record } = exchange;
        if (record?.state === "unstarted" && startsTerm && !isRefusal(outcome))
          outcome = await startTermOf(exchange, { record, answer: outcome });
        leaveRoom?.();
        authenticator.noteAnswer(exchange, outcome, route.endpoint);
        if (limited !== undefined) settleCount(exchange, outcome, limited);
        const response = finish(route, exchange, outcome);
        if (isRefusal(body)) await discardBody(request);
        return response;
      };
    },

    /** Answers the methods that the path of a route does not have: 405 with the methods that it has. */
    refuseOthers({ operations, endpoint }: ClientRoute): MiddlewareHandler<HttpEnv> {
      const methods = methodsOf({ operations });
      const route = { endpoint, metrics: requestMetrics.endpoint(endpoint) };
      return (c) => {
        const exchange = new Exchange(c, clock);
        exchange.allow = methods.join(", ");
        const outcome = refuse("METHOD_NOT_ALLOWED", `${c.req.method.slice(0, 20)} is not allowed here`);
        return afterBody(c, finish(route, exchange, outcome));
      };
    },

    /** Answers a path without a route. */
    notFound: (c: Context<HttpEnv>) => afterBody(c, finish(unknownRoute, new Exchange(c, clock), NOT_FOUND)),

    /** Answers a request if counting, logging or answering threw an error. */
    onError: (error: unknown, c: Context<HttpEnv>) => respond(new Exchange(c, clock), toFailure(error)),
  };
}

/** Tells whether the requests of an endpoint count in a window. */
export function isLimited(endpoint: Endpoint): endpoint is LimitedEndpoint {
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

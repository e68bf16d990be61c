/**
 * Every route, and the order of what happens to a request:
 *
 *     path → method → content encoding → size → syntax → key present → key format → look-up, which chooses
 *     the window → rate limit → key known and active → not expired → other fields → quota
 *
 * The first two are here, the next three in `read_body.ts`, those up to "not expired" in
 * `authenticate.ts`, the rest in the handler. There is no middleware: on the hot path each one costs more
 * than the work it would do. So does each promise: a request waits for its body, and for nothing else that
 * is at hand.
 */
import { Hono } from "hono";
import type { Clock } from "../clock.ts";
import type { LimitedEndpoint } from "../endpoints.ts";
import type { Log } from "../log.ts";
import type { Answer } from "../platform/mod.ts";
import { isRefusal, type Refusal, refuse } from "../refusal.ts";
import { redactKeys } from "../secrets/mod.ts";
import { type AccessLog, createAccessLog, type LoggedRoute } from "./access_log.ts";
import { analyticsLog } from "./analytics_routes.ts";
import { refresh, revoke, validate } from "./auth_routes.ts";
import { type Authenticator, createAuthenticator } from "./authenticate.ts";
import { discardBody } from "./discard_body.ts";
import { createDownloadLinks, DOWNLOAD_PATH } from "./download_link.ts";
import { download } from "./download_routes.ts";
import { toFailure } from "./error_response.ts";
import type { Eventually } from "./eventually.ts";
import { Exchange, type Outcome, toResponse } from "./exchange.ts";
import type { AppOptions, Handler, HandlerDeps } from "./handler.ts";
import { health } from "./health_routes.ts";
import { repoToken } from "./installer_routes.ts";
import type { EndpointMetrics } from "./metrics/request_metrics.ts";
import { modelsList } from "./models_routes.ts";
import { openApiDocument } from "./openapi/routes.ts";
import { type JsonObject, NO_BODY, readJson, toBodyRefusal, toJsonObject } from "./read_body.ts";
import { pathOf } from "./target.ts";

export interface Route {
  readonly path: string;
  readonly methods: Readonly<Record<string, Handler>>;
  /** Whose windows count the request, and what it is called in log and metrics. */
  readonly limit?: LimitedEndpoint;
  /** What it is called there where no windows count it. */
  readonly name?: string;
  /** True where a success changes something, and so is always logged. */
  readonly isChange?: boolean;
}

/** Every path with its methods. */
export function routes(deps: HandlerDeps): Route[] {
  const token = repoToken(deps);
  const file = download(deps);
  const openApi = openApiDocument(deps);
  return [
    { path: "/v1/auth/validate", methods: { POST: validate(deps) }, limit: "validate" },
    { path: "/v1/auth/refresh", methods: { POST: refresh(deps) }, limit: "refresh" },
    { path: "/v1/auth/revoke", methods: { POST: revoke(deps) }, limit: "revoke", isChange: true },
    {
      path: `/v1/installer/${deps.brand.installerHost}-token`,
      methods: { GET: token, POST: token },
      limit: "repo_token",
    },
    { path: "/v1/models/list", methods: { GET: modelsList(deps) }, limit: "models" },
    { path: `${DOWNLOAD_PATH}:name/:version`, methods: { GET: file, HEAD: file }, limit: "downloads" },
    { path: `${DOWNLOAD_PATH}:name/:version/:file`, methods: { GET: file, HEAD: file }, limit: "downloads" },
    { path: "/v1/analytics/log", methods: { POST: analyticsLog(deps) }, limit: "analytics" },
    { path: "/openapi.json", methods: { GET: openApi, HEAD: openApi }, name: "openapi" },
    { path: "/api/health", methods: { GET: health(deps), HEAD: health(deps) }, name: "health" },
  ];
}

/**
 * What Hono is told of a request that found its route. The answer is left on the exchange: Hono would put two
 * promises of its own behind it, which are a twentieth of all that a request costs.
 */
const ROUTED = new Response();

const NOT_FOUND = refuse("NOT_FOUND", "There is nothing at this path");
/** What every path that is none of ours counts as: whoever makes up paths makes no labels. */
const OTHER = "other";

/** Builds the function that answers every request: also what nobody expected is answered by JSON. */
export function createApp(options: AppOptions): Answer {
  const { clock, log, isStopping } = options;
  const authenticator = createAuthenticator(options);
  const accessLog = createAccessLog({
    log,
    requests: options.logRequests,
    slowMs: options.logSlowMs,
    addressOf: authenticator.addressOf,
  });
  const tools: Tools = { clock, log, isStopping, authenticator, accessLog };

  const app = new Hono<{ Bindings: Exchange }>({ getPath: pathOf });
  const links = createDownloadLinks({ ...options, signer: options.linkSigner });
  for (const route of routes({ ...options, authenticator, links })) {
    const endpoint = route.limit ?? route.name ?? OTHER;
    const served = { ...route, endpoint, metrics: options.requestMetrics.endpoint(endpoint) };
    app.all(route.path, ({ env: exchange }) => {
      exchange.answer = serve(served, exchange, tools);
      return ROUTED;
    });
  }
  const nowhere = { endpoint: OTHER, metrics: options.requestMetrics.endpoint(OTHER) };
  app.onError((error, { env: exchange }) => lastResort(error, exchange, tools));
  app.notFound(({ env: exchange }) =>
    afterBody(exchange, finish(nowhere, exchange, { outcome: NOT_FOUND, tools })),
  );
  return (request, peer) => {
    const exchange = new Exchange(request, peer, clock);
    const other = app.fetch(request, exchange);
    return exchange.answer ?? other;
  };
}

interface Tools {
  readonly clock: Clock;
  readonly log: Log;
  readonly isStopping: () => boolean;
  readonly authenticator: Authenticator;
  readonly accessLog: AccessLog;
}

/** Where a request went, as log and metrics see it. */
interface Place extends LoggedRoute {
  readonly metrics: EndpointMetrics;
}

interface ServedRoute extends Route, Place {
  readonly path: string;
  readonly endpoint: string;
}

function serve(route: ServedRoute, exchange: Exchange, tools: Tools): Eventually<Response> {
  const { method } = exchange.request;
  const handler = route.methods[method];
  if (handler === undefined) {
    exchange.allow = Object.keys(route.methods).join(", ");
    const outcome = refuse("METHOD_NOT_ALLOWED", `${method.slice(0, 20)} is not allowed here`);
    return afterBody(exchange, finish(route, exchange, { outcome, tools }));
  }

  return answer(route, exchange, { handler, tools });
}

/** One function that waits where it must: a chain of promises that end in each other costs more. */
async function answer(
  route: ServedRoute,
  exchange: Exchange,
  { handler, tools }: { readonly handler: Handler; readonly tools: Tools },
): Promise<Response> {
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
    outcome = toOutcome(error, exchange, tools);
  }
  const response = conclude(route, exchange, { outcome, tools });
  return isRefusal(body) ? afterBody(exchange, response) : response;
}

/** The answer to a request whose body was not read, once its client can see it. */
function afterBody({ request }: Exchange, response: Response): Eventually<Response> {
  return discardBody(request)?.then(() => response) ?? response;
}

/** What nobody expected, as it is answered. */
function toOutcome(error: unknown, exchange: Exchange, { log }: Tools): Refusal {
  const outcome = toFailure(error);
  if (outcome.code === "SERVER_ERROR") {
    const reason = redactKeys(String(error));
    log.error("A request failed", { request: exchange.id, reason }, { kind: {} });
  }
  return outcome;
}

interface Concluded {
  readonly outcome: Outcome;
  readonly tools: Tools;
}

function conclude(route: ServedRoute, exchange: Exchange, concluded: Concluded): Response {
  try {
    const { outcome, tools } = concluded;
    if (isRefusal(outcome)) tools.authenticator.noteRefusal(exchange, outcome);
    if (route.limit !== undefined) {
      // A client that tries again through an outage, as Retry-After says, must not use up its window by it.
      if (isRefusal(outcome) && outcome.code === "SERVICE_UNAVAILABLE") {
        tools.authenticator.takeBack(exchange, route.limit);
      } else if (exchange.verdict === undefined) {
        tools.authenticator.countAgainstAddress(exchange, route.limit);
      }
    }
    return finish(route, exchange, concluded);
  } catch (error) {
    return lastResort(error, exchange, concluded.tools);
  }
}

/** Where concluding itself failed: what is sent then is JSON as well. */
function lastResort(error: unknown, exchange: Exchange, { clock, isStopping }: Tools): Response {
  return toResponse(exchange, toFailure(error), { atMs: clock.nowMs(), isLast: isStopping() });
}

function finish(place: Place, exchange: Exchange, { outcome, tools }: Concluded): Response {
  const { clock, accessLog, isStopping } = tools;
  exchange.durationMs = clock.monotonicMs() - exchange.beganMs;
  place.metrics.count(outcome, exchange.durationMs);
  accessLog(exchange, outcome, place);
  // Asked when the answer is made, not when the request came: one that waited must say it as well.
  return toResponse(exchange, outcome, { atMs: clock.nowMs(), isLast: isStopping() });
}

/**
 * Every route, and the order of what happens to a request:
 *
 *     path → method → content encoding → size → syntax → key present → key format → look-up, which chooses
 *     the window → rate limit → key known and active → not expired → other fields → quota
 *
 * The first two are here, the next three in `read_body.ts`, those up to "not expired" in
 * `authenticate.ts`, the rest in the handler. There is no middleware: on the hot path each one costs more
 * than the work it would do.
 */
import { Hono } from "hono";
import type { Clock } from "../clock.ts";
import type { LimitedEndpoint } from "../endpoints.ts";
import type { Log } from "../log.ts";
import type { Answer, Peer } from "../platform/mod.ts";
import { isRefusal, refuse } from "../refusal.ts";
import { redactKeys } from "../secrets/mod.ts";
import { type AccessLog, createAccessLog } from "./access_log.ts";
import { analyticsLog } from "./analytics_routes.ts";
import { refresh, revoke, validate } from "./auth_routes.ts";
import { type Authenticator, createAuthenticator } from "./authenticate.ts";
import { createDownloadLinks, DOWNLOAD_PATH } from "./download_link.ts";
import { download } from "./download_routes.ts";
import { toFailure } from "./error_response.ts";
import { Exchange, type Outcome, toResponse } from "./exchange.ts";
import type { AppOptions, Handler, Parts } from "./handler.ts";
import { health } from "./health_routes.ts";
import { repoToken } from "./installer_routes.ts";
import { modelsList } from "./models_routes.ts";
import { openApiDocument } from "./openapi_routes.ts";
import { type JsonObject, readJsonObject } from "./read_body.ts";
import type { EndpointMetrics } from "./request_metrics.ts";
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
export function routes(parts: Parts): Route[] {
  const token = repoToken(parts);
  const file = download(parts);
  const openApi = openApiDocument(parts);
  return [
    { path: "/v1/auth/validate", methods: { POST: validate(parts) }, limit: "validate" },
    { path: "/v1/auth/refresh", methods: { POST: refresh(parts) }, limit: "refresh" },
    { path: "/v1/auth/revoke", methods: { POST: revoke(parts) }, limit: "revoke", isChange: true },
    {
      path: `/v1/installer/${parts.brand.installerHost}-token`,
      methods: { GET: token, POST: token },
      limit: "repo_token",
    },
    { path: "/v1/models/list", methods: { GET: modelsList(parts) }, limit: "models" },
    { path: `${DOWNLOAD_PATH}:name/:version`, methods: { GET: file, HEAD: file }, limit: "downloads" },
    { path: "/v1/analytics/log", methods: { POST: analyticsLog(parts) }, limit: "analytics" },
    { path: "/openapi.json", methods: { GET: openApi, HEAD: openApi }, name: "openapi" },
    { path: "/api/health", methods: { GET: health(parts), HEAD: health(parts) }, name: "health" },
  ];
}

const NOT_FOUND = refuse("NOT_FOUND", "There is nothing at this path");
const NO_BODY: JsonObject = {};
/** What every path that is none of ours counts as: whoever makes up paths makes no labels. */
const OTHER = "other";
const NOWHERE = { endpoint: OTHER };

/** Builds the function that answers every request. It never throws. */
export function createApp(options: AppOptions): Answer {
  const { clock, log } = options;
  const authenticator = createAuthenticator(options);
  const accessLog = createAccessLog({
    log,
    requests: options.logRequests,
    slowMs: options.logSlowMs,
    addressOf: authenticator.addressOf,
  });
  const tools: Tools = { clock, log, authenticator, accessLog };

  const app = new Hono<{ Bindings: Peer }>({ getPath: pathOf });
  const links = createDownloadLinks({ ...options, signer: options.linkSigner });
  for (const route of routes({ ...options, authenticator, links })) {
    const endpoint = route.limit ?? route.name ?? OTHER;
    const served = { ...route, endpoint, metrics: options.requestMetrics.endpoint(endpoint) };
    app.all(route.path, (context) => serve(served, new Exchange(context.req.raw, context.env, clock), tools));
  }
  const elsewhere = options.requestMetrics.endpoint(OTHER);
  app.notFound((context) => {
    const exchange = new Exchange(context.req.raw, context.env, clock);
    exchange.durationMs = clock.monotonicMs() - exchange.beganMs;
    elsewhere.count(NOT_FOUND, exchange.durationMs);
    accessLog(exchange, NOT_FOUND, NOWHERE);
    return toResponse(exchange, NOT_FOUND, clock);
  });
  return (request, peer) => app.fetch(request, peer);
}

interface Tools {
  readonly clock: Clock;
  readonly log: Log;
  readonly authenticator: Authenticator;
  readonly accessLog: AccessLog;
}

interface ServedRoute extends Route {
  readonly endpoint: string;
  readonly metrics: EndpointMetrics;
}

async function serve(route: ServedRoute, exchange: Exchange, tools: Tools): Promise<Response> {
  let outcome: Outcome;
  try {
    outcome = await answer(route, exchange);
  } catch (error) {
    outcome = toFailure(error);
    if (outcome.code === "SERVER_ERROR") {
      tools.log.error("A request failed", { request: exchange.id, reason: redactKeys(String(error)) });
    }
  }
  const isRefusedForMethod = isRefusal(outcome) && outcome.code === "METHOD_NOT_ALLOWED";
  if (route.limit !== undefined && exchange.verdict === undefined && !isRefusedForMethod) {
    tools.authenticator.countAgainstAddress(exchange, route.limit);
  }
  exchange.durationMs = tools.clock.monotonicMs() - exchange.beganMs;
  route.metrics.count(outcome, exchange.durationMs);
  tools.accessLog(exchange, outcome, route);
  return toResponse(exchange, outcome, tools.clock);
}

async function answer(route: Route, exchange: Exchange): Promise<Outcome> {
  const { request } = exchange;
  const handler = route.methods[request.method];
  if (handler === undefined) {
    exchange.allow = Object.keys(route.methods).join(", ");
    return refuse("METHOD_NOT_ALLOWED", `${request.method.slice(0, 20)} is not allowed here`);
  }
  if (request.method !== "POST") return await handler(exchange, NO_BODY);
  const body = await readJsonObject(request);
  return isRefusal(body) ? body : await handler(exchange, body);
}

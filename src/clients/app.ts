/**
 * Defines every route. The checks of a request run in this order:
 *
 *     path → method → content encoding → size → syntax → key present → key format → look-up, which chooses
 *     the window → rate limit → key known and active → not expired → other fields → quota
 *
 * The last checks of a signed license are that it is allowed, and for so many days, and that its machine is active.
 * After all checks, and before the answer, the first use of a license starts its term.
 *
 * Hono checks path and method by the routes below. The next three checks are in `read_body.ts`, the checks from "key
 * present" to "not expired" in `authenticate.ts` and what it calls, the others in the handler. `serve.ts` calls them
 * in this order.
 */
import { Hono } from "hono";
import { pathOf } from "../wire/mod.ts";
import { analyticsLog, LOG_EVENT } from "./analytics_routes.ts";
import type { AppOptions } from "./app_options.ts";
import { REFRESH, REVOKE, refresh, revoke, VALIDATE, validate } from "./auth_routes.ts";
import { createAuthenticator } from "./authenticate.ts";
import { createBatchRoom } from "./batch_room.ts";
import { analyticsBatch, LOG_EVENTS } from "./batch_routes.ts";
import { createDownloadLinks, DOWNLOAD_PATH } from "./download_link.ts";
import { DOWNLOAD, DOWNLOAD_BY_FILE_NAME } from "./download_operations.ts";
import { download } from "./download_routes.ts";
import type { HttpEnv } from "./exchange.ts";
import type { HandlerDeps } from "./handler.ts";
import { HEALTH, health } from "./health_routes.ts";
import { repoToken, repoTokenOperations } from "./installer_routes.ts";
import { LICENSE, license, PUBLIC_KEYS, publicKeys } from "./license_routes.ts";
import { LIST_MACHINES, machineList } from "./machine_list_routes.ts";
import { ACTIVATE, activate, HEARTBEAT, heartbeat, RELEASE, release } from "./machine_routes.ts";
import { modelsList, modelsListOperation } from "./models_routes.ts";
import { DOCUMENT, openApiDocument } from "./openapi/routes.ts";
import { type ClientRoute, createRouteHandlers, methodsOf } from "./serve.ts";

/** Builds the app that answers clients. The platform calls its `fetch` with the request and the connection. */
export function createApp(options: AppOptions): Hono<HttpEnv> {
  const deps: HandlerDeps = {
    ...options,
    authenticator: createAuthenticator(options),
    links: createDownloadLinks(options),
  };
  const { serve, refuseOthers, notFound, onError } = createRouteHandlers(deps);
  // Without `getPath` Hono would decode the path, but each path of the contract has only one spelling.
  const app = new Hono<HttpEnv>({ getPath: pathOf });
  // A request that matches no route of `app` is passed to this app, which answers a known path with 405. With
  // `app.all` instead, every request would match two handlers, and Hono would wrap the first one in more promises.
  const otherMethods = new Hono<HttpEnv>({ getPath: pathOf });
  for (const route of listRoutes(deps)) {
    // Hono runs the handlers of GET for HEAD, too.
    const methods = methodsOf(route).filter((method) => method !== "HEAD");
    app.on(methods, route.path, serve(route));
    otherMethods.all(route.path, refuseOthers(route));
  }

  app.notFound((c) => otherMethods.fetch(c.req.raw, c.env));
  app.onError(onError);
  otherMethods.notFound(notFound);
  otherMethods.onError(onError);
  return app;
}

/** Returns the routes in the order of the document. */
function listRoutes(deps: HandlerDeps): readonly ClientRoute[] {
  const { brand } = deps;
  const file = download(deps);
  const described = [
    {
      path: "/v1/auth/validate",
      endpoint: "validate",
      handler: validate(deps),
      operations: { post: VALIDATE },
    },
    { path: "/v1/auth/refresh", endpoint: "refresh", handler: refresh(deps), operations: { post: REFRESH } },
    {
      path: "/v1/auth/license",
      endpoint: "license",
      handler: license(deps),
      // The statement that notes the signed license does.
      startsTerm: false,
      operations: { post: LICENSE },
    },
    {
      path: "/v1/auth/revoke",
      endpoint: "revoke",
      handler: revoke(deps),
      isChange: true,
      startsTerm: false,
      operations: { post: REVOKE },
    },
    {
      path: `/v1/installer/${brand.installerHost}-token`,
      endpoint: "repo_token",
      handler: repoToken(deps),
      operations: repoTokenOperations(brand),
    },
    {
      path: "/v1/models/list",
      endpoint: "models",
      handler: modelsList(deps),
      operations: { get: modelsListOperation(brand) },
    },
    { path: `${DOWNLOAD_PATH}:name/:version`, endpoint: "downloads", handler: file, operations: DOWNLOAD },
    {
      path: `${DOWNLOAD_PATH}:name/:version/:file`,
      endpoint: "downloads",
      handler: file,
      operations: DOWNLOAD_BY_FILE_NAME,
    },
    {
      path: "/v1/analytics/log",
      endpoint: "analytics",
      handler: analyticsLog(deps),
      operations: { post: LOG_EVENT },
    },
    {
      path: "/v1/analytics/batch",
      endpoint: "analytics_batch",
      handler: analyticsBatch(deps),
      bodyRoom: createBatchRoom(deps.events),
      operations: { post: LOG_EVENTS },
    },
    {
      path: "/v1/machines/activate",
      endpoint: "machine_activate",
      handler: activate(deps),
      operations: { post: ACTIVATE },
    },
    {
      path: "/v1/machines/heartbeat",
      endpoint: "machine_heartbeat",
      handler: heartbeat(deps),
      operations: { post: HEARTBEAT },
    },
    {
      path: "/v1/machines/release",
      endpoint: "machine_release",
      handler: release(deps),
      operations: { post: RELEASE },
    },
    {
      path: "/v1/machines/list",
      endpoint: "machine_list",
      handler: machineList(deps),
      operations: { post: LIST_MACHINES },
    },
    { path: "/.well-known/jwks.json", endpoint: "jwks", handler: publicKeys(deps), operations: PUBLIC_KEYS },
    { path: "/api/health", endpoint: "health", handler: health(deps), operations: HEALTH },
  ] as const satisfies readonly ClientRoute[];
  const document = { path: "/openapi.json", endpoint: "openapi", operations: DOCUMENT } as const;
  const handler = openApiDocument(deps, [...described, document]);
  return [...described, { ...document, handler }];
}

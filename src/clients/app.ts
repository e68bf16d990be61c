/**
 * Defines every route. The checks of a request run in this order:
 *
 *     path → method → content encoding → size → syntax → key present → key format → look-up, which chooses
 *     the window → rate limit → key known and active → not expired → other fields → quota
 *
 * The last check of a signed license is that the tier allows offline use.
 *
 * Hono checks path and method by the routes below. The next three checks are in `read_body.ts`, the checks from "key
 * present" to "not expired" in `authenticate.ts`, the others in the handler. `serve.ts` calls them in this order.
 */
import { Hono } from "hono";
import { pathOf } from "../wire/mod.ts";
import { analyticsLog } from "./analytics_routes.ts";
import type { AppOptions } from "./app_options.ts";
import { refresh, revoke, validate } from "./auth_routes.ts";
import { createAuthenticator } from "./authenticate.ts";
import { createDownloadLinks, DOWNLOAD_PATH } from "./download_link.ts";
import { download } from "./download_routes.ts";
import type { HttpEnv } from "./exchange.ts";
import type { HandlerDeps } from "./handler.ts";
import { health } from "./health_routes.ts";
import { repoToken } from "./installer_routes.ts";
import { license, publicKeys } from "./license_routes.ts";
import { activate, heartbeat, release } from "./machine_routes.ts";
import { modelsList } from "./models_routes.ts";
import { openApiDocument } from "./openapi/routes.ts";
import { type ClientRoute, createRouteHandlers } from "./serve.ts";

const POST = ["POST"] as const;
const READ = ["GET", "HEAD"] as const;

/** Builds the app that answers clients. The platform calls its `fetch` with the request and the connection. */
export function createApp(options: AppOptions): Hono<HttpEnv> {
  const deps: HandlerDeps = {
    ...options,
    authenticator: createAuthenticator(options),
    links: createDownloadLinks(options),
  };
  const { serve, refuseOthers, notFound, onError } = createRouteHandlers(deps);
  const file = download(deps);
  const routes: readonly ClientRoute[] = [
    { methods: POST, path: "/v1/auth/validate", endpoint: "validate", handler: validate(deps) },
    { methods: POST, path: "/v1/auth/refresh", endpoint: "refresh", handler: refresh(deps) },
    { methods: POST, path: "/v1/auth/revoke", endpoint: "revoke", handler: revoke(deps), isChange: true },
    { methods: POST, path: "/v1/auth/license", endpoint: "license", handler: license(deps) },
    { methods: READ, path: "/.well-known/jwks.json", endpoint: "jwks", handler: publicKeys(deps) },
    {
      methods: ["GET", "POST"],
      path: `/v1/installer/${options.brand.installerHost}-token`,
      endpoint: "repo_token",
      handler: repoToken(deps),
    },
    { methods: ["GET"], path: "/v1/models/list", endpoint: "models", handler: modelsList(deps) },
    { methods: READ, path: `${DOWNLOAD_PATH}:name/:version`, endpoint: "downloads", handler: file },
    { methods: READ, path: `${DOWNLOAD_PATH}:name/:version/:file`, endpoint: "downloads", handler: file },
    { methods: POST, path: "/v1/analytics/log", endpoint: "analytics", handler: analyticsLog(deps) },
    { methods: POST, path: "/v1/machines/activate", endpoint: "machine_activate", handler: activate(deps) },
    {
      methods: POST,
      path: "/v1/machines/heartbeat",
      endpoint: "machine_heartbeat",
      handler: heartbeat(deps),
    },
    { methods: POST, path: "/v1/machines/release", endpoint: "machine_release", handler: release(deps) },
    { methods: READ, path: "/openapi.json", endpoint: "openapi", handler: openApiDocument(deps) },
    { methods: READ, path: "/api/health", endpoint: "health", handler: health(deps) },
  ];
  // Without `getPath` Hono would decode the path, but each path of the contract has only one spelling.
  const app = new Hono<HttpEnv>({ getPath: pathOf });
  // A request that matches no route of `app` is passed to this app, which answers a known path with 405. With
  // `app.all` instead, every request would match two handlers, and Hono would wrap the first one in more promises.
  const otherMethods = new Hono<HttpEnv>({ getPath: pathOf });
  for (const route of routes) {
    // Hono runs the handlers of GET for HEAD, too.
    const methods = route.methods.filter((method) => method !== "HEAD");
    app.on(methods, route.path, serve(route));
    otherMethods.all(route.path, refuseOthers(route));
  }

  app.notFound((c) => otherMethods.fetch(c.req.raw, c.env));
  app.onError(onError);
  otherMethods.notFound(notFound);
  otherMethods.onError(onError);
  return app;
}

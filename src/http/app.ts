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
import { refresh, revoke, validate } from "./auth_routes.ts";
import { createAuthenticator } from "./authenticate.ts";
import { createDownloadLinks, DOWNLOAD_PATH } from "./download_link.ts";
import { download } from "./download_routes.ts";
import type { HttpEnv } from "./exchange.ts";
import type { AppOptions, HandlerDeps } from "./handler.ts";
import { health } from "./health_routes.ts";
import { repoToken } from "./installer_routes.ts";
import { license, publicKeys } from "./license_routes.ts";
import { modelsList } from "./models_routes.ts";
import { openApiDocument } from "./openapi/routes.ts";
import { createRouteHandlers } from "./serve.ts";

/** Builds the app that answers clients. The platform calls its `fetch` with the request and the connection. */
export function createApp(options: AppOptions): Hono<HttpEnv> {
  const deps: HandlerDeps = {
    ...options,
    authenticator: createAuthenticator(options),
    links: createDownloadLinks({ ...options, signer: options.linkSigner }),
  };
  const { serve, allowOnly, notFound, onError } = createRouteHandlers(deps);
  // Without `getPath` Hono would decode the path, but each path of the contract has only one spelling.
  const app = new Hono<HttpEnv>({ getPath: pathOf });
  // A request that matches no route of `app` is passed to this app, which answers a known path with 405. With
  // `app.all` instead, every request would match two handlers, and Hono would wrap the first one in more promises.
  const otherMethods = new Hono<HttpEnv>({ getPath: pathOf });

  app.post("/v1/auth/validate", serve("validate", validate(deps)));
  otherMethods.all("/v1/auth/validate", allowOnly("POST", "validate"));

  app.post("/v1/auth/refresh", serve("refresh", refresh(deps)));
  otherMethods.all("/v1/auth/refresh", allowOnly("POST", "refresh"));

  app.post("/v1/auth/revoke", serve("revoke", revoke(deps), { isChange: true }));
  otherMethods.all("/v1/auth/revoke", allowOnly("POST", "revoke"));

  app.post("/v1/auth/license", serve("license", license(deps)));
  otherMethods.all("/v1/auth/license", allowOnly("POST", "license"));

  app.get("/.well-known/jwks.json", serve("jwks", publicKeys(deps), { answersHead: true }));
  otherMethods.all("/.well-known/jwks.json", allowOnly("GET, HEAD", "jwks"));

  const tokenPath = `/v1/installer/${options.brand.installerHost}-token`;
  app.on(["GET", "POST"], tokenPath, serve("repo_token", repoToken(deps)));
  otherMethods.all(tokenPath, allowOnly("GET, POST", "repo_token"));

  app.get("/v1/models/list", serve("models", modelsList(deps)));
  otherMethods.all("/v1/models/list", allowOnly("GET", "models"));

  const file = serve("downloads", download(deps), { answersHead: true });
  for (const path of [`${DOWNLOAD_PATH}:name/:version`, `${DOWNLOAD_PATH}:name/:version/:file`]) {
    app.get(path, file);
    otherMethods.all(path, allowOnly("GET, HEAD", "downloads"));
  }

  app.post("/v1/analytics/log", serve("analytics", analyticsLog(deps)));
  otherMethods.all("/v1/analytics/log", allowOnly("POST", "analytics"));

  app.get("/openapi.json", serve("openapi", openApiDocument(deps), { answersHead: true }));
  otherMethods.all("/openapi.json", allowOnly("GET, HEAD", "openapi"));

  app.get("/api/health", serve("health", health(deps), { answersHead: true }));
  otherMethods.all("/api/health", allowOnly("GET, HEAD", "health"));

  app.notFound((c) => otherMethods.fetch(c.req.raw, c.env));
  app.onError(onError);
  otherMethods.notFound(notFound);
  otherMethods.onError(onError);
  return app;
}

/**
 * Defines what the listener for operators serves. The checks of a request run in this order:
 *
 *     host → site → token and its limits, or session → path → method → scope or role → fields → state
 *
 * Host and site come before everything that counts or asks the database: a foreign website can make a browser send
 * requests here, either with the website's own name as `Host` or from the website's page. `GET /admin/health` comes
 * before all of them.
 */
import { Hono } from "hono";
import { refuse } from "../base/refusal.ts";
import { discardBody, pathOf } from "../wire/mod.ts";
import { answerRefusal } from "./frame/answer.ts";
import { createApi } from "./frame/api/app.ts";
import { renderDocument } from "./frame/api/document.ts";
import { createConsole } from "./frame/console/app.ts";
import { createExamination } from "./frame/examination.ts";
import { refuseMisdirected } from "./frame/host_check.ts";
import { logFailure } from "./frame/log_failure.ts";
import { logRequests } from "./frame/log_requests.ts";
import type { AdminAppOptions, AdminEnv, AdminOptions } from "./frame/options.ts";
import { ROUTES, THINGS } from "./things.ts";

const NOT_FOUND = refuse("NOT_FOUND", "There is nothing at this path");

/** Builds the app that answers operators. The platform calls its `fetch` with the request and the connection. */
export function createAdminApp(given: AdminAppOptions): Hono<AdminEnv> {
  let document: string | undefined;
  const options: AdminOptions = {
    ...given,
    examination: createExamination(given),
    // Rendered at the first request, because few programs ask for it.
    apiDocument: () => (document ??= renderDocument({ ...given, routes: ROUTES })),
    cookieSigner: given.secrets.signer("session-cookie"),
  };
  const app = new Hono<AdminEnv>({ getPath: pathOf });
  // For balancers, which know neither our name nor a token. It needs no SQL statement, and is not logged.
  app.get("/admin/health", (c) => {
    const isHealthy = options.directory.isTrusted() && !options.isStopping();
    return c.body(null, isHealthy ? 200 : 503, { "Cache-Control": "no-store" });
  });
  app.use(logRequests(options));
  app.use(refuseMisdirected(options));
  app.use(async (c, next) => {
    await next();
    await discardBody(c.req.raw);
  });
  for (const path of ["/", "/console"]) app.get(path, (c) => c.redirect("/console/", 303));
  app.route("/admin/v1", createApi(options, ROUTES));
  app.route("/console/", createConsole(options, THINGS));
  app.notFound((c) => answerRefusal(c, NOT_FOUND));
  app.onError((error, c) => answerRefusal(c, logFailure(error, c, options)));
  return app;
}

/**
 * The console: pages for people with a session. The checks of a request run in this order:
 *
 *     host → origin of the form → session → path → method → role → fields → state
 *
 * Each thing has its pages. A page is a function that takes a visit and returns a title and a body.
 */
import { type Context, Hono } from "hono";
import { isRefusal, type Refusal, refuse } from "../../../base/refusal.ts";
import type { Session } from "../../../operators/mod.ts";
import { statusOf, toWireCode } from "../../../wire/mod.ts";
import { logFailure } from "../log_failure.ts";
import type { AdminEnv, AdminOptions } from "../options.ts";
import type { Thing } from "../thing.ts";
import { serveAsset } from "./assets.ts";
import { enterPage } from "./enter.tsx";
import { readForm } from "./form.ts";
import { setHeaders } from "./headers.ts";
import { logIn } from "./log_in.ts";
import { createLoginLimit } from "./login_limit.ts";
import { mayUse, type Need } from "./may.ts";
import { refuseForeignForms } from "./origin.ts";
import { type Page, renderPage } from "./page.tsx";
import { createProviderLogin } from "./provider_login.tsx";
import { refusalPage } from "./remedies.tsx";
import { type ConsoleRoute, toOpenForm } from "./route.ts";
import { readSession, requireSession } from "./session_cookie.ts";
import { createVisit } from "./visit.ts";
import { wayBackOf } from "./way_back.ts";

const NOT_FOUND = refuse("NOT_FOUND", "There is no such page");

/** Creates the app of `/console`. */
export function createConsole(options: AdminOptions, things: readonly [Thing, ...Thing[]]): Hono<AdminEnv> {
  const app = new Hono<AdminEnv>();
  const { provider } = options;
  const menu = things.flatMap(({ label, pages: [{ path, scope }] }) =>
    label === null ? [] : { label, path, scope },
  );
  const all = things.flatMap(({ pages }) => pages);

  function show(c: Context<AdminEnv>, page: Page): Response | Promise<Response> {
    if (page.code !== undefined) c.set("code", toWireCode(page.code));
    if (page.retryAfterSeconds !== undefined) c.header("Retry-After", String(page.retryAfterSeconds));
    const status = page.code === undefined ? 200 : statusOf(page.code);
    return c.html(renderPage(page, { menu, session: c.get("session"), path: c.req.path }), status as 200);
  }

  function showRefusal(c: Context<AdminEnv>, refusal: Refusal): Response | Promise<Response> {
    // Before the login there is no session, and no refusal has a remedy.
    const session: Session | undefined = c.get("session");
    const may = (need: Need) => session !== undefined && mayUse(session.role, need);
    return show(c, refusalPage(refusal, may));
  }

  app.use(setHeaders(options));
  app.get("/assets/:name", serveAsset);
  app.use(refuseForeignForms(options, showRefusal));
  app.get("/enter", async (c) => {
    const { ended, done, fresh, to = "" } = c.req.query();
    const isLoggedOut = done === "logged-out";
    const why = { hasEnded: ended !== undefined, needsFreshProof: fresh !== undefined, isLoggedOut };
    const loggedIn = (await readSession(c, options, { extends: false }))?.operator;
    return show(c, enterPage({ ...why, provider, loggedIn, to: wayBackOf(to) }));
  });
  const limit = createLoginLimit(options);
  app.post("/enter", logIn(options, limit, show));
  if (provider !== undefined) {
    const login = createProviderLogin(provider, options, { limit, show });
    app.get("/enter/provider", login.begin);
    app.get("/callback", login.callback);
    app.get("/enter/leave", login.leave);
  }
  app.use(requireSession(options, showRefusal));
  app.get("/", (c) => c.redirect(`/console${things[0].pages[0].path}`, 303));
  for (const route of all) {
    app.on(route.method, route.path, async (c) => {
      const answer = await answerVisit(c, route, options);
      if (isRefusal(answer)) return showRefusal(c, answer);
      return answer instanceof Response ? answer : show(c, answer);
    });
  }
  for (const [path, routes] of Map.groupBy(all, (route) => route.path)) {
    app.all(path, (c) => {
      // People open the address of a form that was refused, such as by a login.
      const [, page = "", action = ""] = /^(.*)\/([^/]+)$/.exec(path) ?? [];
      if (c.req.method === "GET" && all.some((route) => route.method === "GET" && route.path === page))
        return c.redirect(toOpenForm(c.req.path.slice(0, -action.length - 1), action), 303);
      c.header("Allow", routes.map(({ method }) => method).join(", "));
      return showRefusal(
        c,
        refuse("METHOD_NOT_ALLOWED", "This page does not accept a request with this method"),
      );
    });
  }
  app.all("*", (c) => showRefusal(c, NOT_FOUND));
  app.onError((error, c) => showRefusal(c, logFailure(error, c, options)));
  return app;
}

async function answerVisit(c: Context<AdminEnv>, route: ConsoleRoute, options: AdminOptions) {
  const { role } = c.get("session");
  if (!mayUse(role, route.scope)) return refuse("SCOPE_REQUIRED", `Your role, ${role}, may not do this`);
  const form =
    c.req.method === "POST" ? await readForm(c.req.raw, route.formLimitBytes) : new URLSearchParams();
  if (isRefusal(form)) return form;
  return await route.answer(createVisit(c, options, { form, need: route.scope }), c);
}

/**
 * Every route of the API and of the console: who may call it, and who may not, as `rights.ts` says. A route without a
 * row there or in `sample_requests.ts` fails.
 */
import { describe, expect, test } from "bun:test";
import { codesOf } from "../../src/admin/frame/api/document_facts.ts";
import type { Route } from "../../src/admin/frame/api/route.ts";
import { CONSOLE_ROUTES, ROUTES, THINGS } from "../../src/admin/things.ts";
import type { Code } from "../../src/base/refusal.ts";
import { findGuidePage } from "../../src/cli/guide/pages.ts";
import { ROLES, SCOPES } from "../../src/operators/mod.ts";
import { statusOf, toWireCode } from "../../src/wire/mod.ts";
import type { JsonResponse } from "../support/service.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { API_SCOPES, CONSOLE_ROLES } from "./rights.ts";
import { makeSample, nameOf, unmatched } from "./sample_requests.ts";
import { CONSOLE_FORMS, makeVisit } from "./sample_visits.ts";

const admin = useAdmin();
const operators = createConsoleClient(admin);

/** Sends the sample request of a route. */
async function send(
  { method, path }: Route,
  options: { readonly token?: string; readonly headers?: Record<string, string> },
): Promise<JsonResponse> {
  const sample = await makeSample(admin, { method, path });
  return await admin.call(method, sample.path, {
    ...sample,
    ...options,
    headers: { ...sample.headers, ...options.headers },
  });
}

const codeOf = ({ status, body }: JsonResponse) => ({ status, code: body.code });

test("the tables have every route", () => {
  expect(unmatched()).toEqual({ routes: [], samples: [] });
  expect(Object.keys(API_SCOPES).toSorted()).toEqual(ROUTES.map(nameOf).toSorted());
  expect(Object.keys(CONSOLE_ROLES).toSorted()).toEqual(CONSOLE_ROUTES.map(nameOf).toSorted());
});

test("the API has the routes of every thing", () => {
  const served = ROUTES.map(nameOf);
  for (const { label, api } of THINGS)
    expect({ label, missing: api.map(nameOf).filter((name) => !served.includes(name)) }).toEqual({
      label,
      missing: [],
    });
});

test("the manual has every route with its scope, and every code with its status", () => {
  const manual = findGuidePage("operators")?.text ?? "";
  const written = [...manual.matchAll(/^\| (`[A-Z]+ \/.*) \| `?([a-z:]+)`? \|$/gm)].flatMap(
    ([, routes = "", scope]) => [...routes.matchAll(/`([^`]+)`/g)].map(([, route]) => `${route} ${scope}`),
  );
  const served = ROUTES.map(
    (route) => `${nameOf(route).replace(/:(\w+)/g, (_, name) => name.toUpperCase())} ${route.scope}`,
  );
  expect(written.toSorted()).toEqual(served.toSorted());
  const codes = new Set<Code>(["METHOD_NOT_ALLOWED", ...ROUTES.flatMap(codesOf)]);
  for (const code of codes) {
    const row = manual.match(
      new RegExp(`^\\|.*\\b${statusOf(code)}\\b.*\\|.*\`${toWireCode(code)}\`.*$`, "m"),
    );
    expect({ code, isWritten: row !== null }).toEqual({ code, isWritten: true });
  }
});

test("each scope has a route, or is for restricted tokens only", () => {
  const used = new Set<string>(["accounts:join", ...ROUTES.map(({ scope }) => scope)]);
  expect([...used].toSorted()).toEqual(["any", ...SCOPES].toSorted());
});

for (const route of ROUTES) {
  const { method, path } = route;
  const scope = API_SCOPES[nameOf(route)] ?? "any";

  describe(nameOf(route), () => {
    test("answers a token that has only this scope", async () => {
      const token = await admin.token({ scopes: scope === "any" ? ["status:read"] : [scope] });
      const { status, body } = await send(route, { token });
      const expected = route.operation.success.status ?? 200;
      expect({ status, body }).toEqual({ status: expected, body });
    });

    if (scope !== "any") {
      test("refuses a token with every other scope, and names the scope", async () => {
        const token = await admin.token({ scopes: SCOPES.filter((each) => each !== scope) });
        const { status, body } = await send(route, { token });
        expect({ status, code: body.code }).toEqual({ status: 403, code: "SCOPE_REQUIRED" });
        expect(body.error).toContain(scope);
      });
    }

    test("refuses a request without a token, also with the cookie of a session", async () => {
      // After a minute the wrong tokens of the test before do not count any more.
      admin.clock.advance(61_000);
      const { cookie } = await operators.logIn("admin");
      const [, value = ""] = cookie.split("=");
      for (const authorization of ["", `Bearer ${value}`]) {
        const headers = { authorization, cookie, origin: admin.url };
        expect(codeOf(await send(route, { headers }))).toEqual({ status: 401, code: "INVALID_TOKEN" });
      }
    });

    test("answers every other method with 405 and the allowed methods", async () => {
      const sample = await makeSample(admin, { method, path });
      const ofPath = ROUTES.filter((other) => toPattern(other).test(sample.path.replace(/\?.*/, "")));
      const allowed = ofPath.flatMap((other) => (other.method === "GET" ? ["GET", "HEAD"] : other.method));
      for (const other of ["PUT", "OPTIONS", "GET", "POST", "PATCH", "DELETE"] as const) {
        if (allowed.some((each) => each === other)) continue;
        const { status, headers } = await admin.call(other, sample.path);
        const named = headers.get("allow")?.split(", ") ?? [];
        expect({ other, status }).toEqual({ other, status: 405 });
        expect(named).toContain(method);
        expect(allowed).toEqual(expect.arrayContaining(named));
      }
    });
  });
}

test("the table has every form of the console", () => {
  const posts = CONSOLE_ROUTES.filter(({ method }) => method !== "GET").map(nameOf);
  expect(Object.keys(CONSOLE_FORMS).toSorted()).toEqual(posts.toSorted());
});

test("a form of the console needs the scope of its change in the API", () => {
  for (const { method, path, scope } of CONSOLE_ROUTES.filter((route) => route.method === "POST")) {
    const sameChange = ROUTES.find((other) => other.method === method && other.path === path);
    expect({ path, scope }).toEqual({ path, scope: sameChange?.scope ?? scope });
  }
});

for (const route of CONSOLE_ROUTES) {
  const { method, path } = route;
  const open = async (cookie: string, headers: Record<string, string> = {}) => {
    const { path: sample, ...visit } = await makeVisit(admin, { method, path });
    return await operators.send(sample, {
      ...visit,
      method,
      cookie,
      headers: { ...visit.headers, ...headers },
    });
  };

  describe(`the console's ${nameOf(route)}`, () => {
    for (const role of ROLES) {
      const isAllowed = ROLES.indexOf(role) >= ROLES.indexOf(CONSOLE_ROLES[nameOf(route)] ?? "admin");
      test(`${isAllowed ? "answers" : "refuses"} ${role}`, async () => {
        const { cookie } = await operators.logIn(role);
        const { status } = await open(cookie);
        if (isAllowed) expect(status).toBeWithin(200, 400);
        else expect(status).toBe(403);
      });
    }

    test("leads to the login without a session, also with a token that has every scope", async () => {
      // After a minute the made-up cookies of the tests before do not count any more.
      admin.clock.advance(61_000);
      const authorization = `Bearer ${await admin.token()}`;
      const ended = `claviger_${new URL(admin.url).port}=${"0".repeat(64)}`;
      for (const cookie of ["", "claviger_80=0", ended]) {
        const { status, location } = await open(cookie, { authorization });
        // `way_back_test.ts` shows where the login leads.
        const page = location?.replace(/[?&]to=.*/, "");
        expect({ status, page }).toEqual({
          status: 303,
          page: cookie === ended ? "/console/enter?ended" : "/console/enter",
        });
      }
    });

    if (method !== "GET") {
      test("refuses a form of another origin, or without one", async () => {
        const { cookie } = await operators.logIn("admin");
        for (const origin of ["https://evil.example", "null", admin.url.replace(/\d+$/, "1"), ""]) {
          expect((await open(cookie, { origin })).status).toBe(403);
        }
        expect(await operators.isLoggedIn(cookie)).toBe(true);
      });
    }
  });
}

/** The page of a form: the part of its path before the name of the action. */
const pageOf = (path: string) => path.replace(/\/[^/]+$/, "");
const actions = CONSOLE_ROUTES.filter(
  ({ method, path }) => method === "POST" && CONSOLE_ROUTES.some((page) => page.path === pageOf(path)),
);

test("these pages have actions", () => {
  expect(new Set(actions.map(({ path }) => pageOf(path)))).toEqual(
    new Set([
      "/keys",
      "/keys/:id",
      "/keys/many",
      "/licenses/:id",
      "/accounts/:id",
      "/accounts/:id/erasure",
      "/machines",
      "/machines/many",
      "/machines/:id",
      "/notices/:id",
      "/notices/muted",
      "/tiers",
      "/usage",
      "/usage/reports",
      "/models",
      "/models/:name",
      "/access",
      "/access/operators/:name",
      "/access/tokens/:name",
    ]),
  );
});

for (const action of actions) {
  const { method, path } = action;
  const lowest = CONSOLE_ROLES[nameOf(action)] ?? "admin";
  const page = { method: "GET", path: pageOf(path) };

  test(`the console offers ${method} ${path} to a role that may send it, and to no other`, async () => {
    for (const role of ROLES) {
      const { cookie } = await operators.logIn(role);
      const sample = await makeVisit(admin, { method, path });
      const shown = await operators.send(
        // A list offers the release of its machines only with a condition.
        path === "/machines/many"
          ? "/machines?state=active"
          : ["/keys/issue", "/models/_add", "/usage/reports"].includes(path)
            ? sample.path
            : // The form of a rare change is on the page of its key or license only if the address asks for it.
              sample.path.replace(/\/([^/]+)$/, /^\/(keys|licenses)\/:id\//.test(path) ? "?open=$1" : ""),
        {
          cookie,
          // The pages of many keys or machines do not open without their ids.
          ...(["/keys/many", "/machines/many"].includes(page.path) && {
            form: { id: sample.form?.id ?? "" },
          }),
          // The import is offered by the page that shows what it would change.
          ...(page.path === "/usage/reports" && { form: sample.form ?? {} }),
        },
      );
      const mayOpen = ROLES.indexOf(role) >= ROLES.indexOf(CONSOLE_ROLES[nameOf(page)] ?? "admin");
      const isAllowed = ROLES.indexOf(role) >= ROLES.indexOf(lowest);
      const isOffered = shown.text.includes(`action="/console${sample.path}"`);
      expect({ role, isOffered }).toEqual({ role, isOffered: mayOpen && isAllowed });
    }
  });
}

function toPattern({ path }: Route): RegExp {
  return new RegExp(`^${path.replaceAll(".", "\\.").replaceAll(/:\w+/g, "[^/]+")}$`);
}

test("a path that is no route answers 404 to a token, and 401 without one", async () => {
  for (const path of [
    "",
    "/",
    "/nothing",
    "/keys/",
    "/whoami/",
    "/WHOAMI",
    "/..%2fwhoami",
    "/openapi.yaml",
  ]) {
    expect(codeOf(await admin.call("GET", path))).toEqual({ status: 404, code: "NOT_FOUND" });
  }
  expect((await fetch(`${admin.url}/admin/v1/nothing`)).status).toBe(401);
  for (const path of ["/v1/auth/validate", "/api/health", "/metrics", "/admin", "/admin/v2/whoami"]) {
    const answer = await fetch(`${admin.url}${path}`, {
      headers: { authorization: `Bearer ${await admin.token()}` },
    });
    expect({ path, status: answer.status, code: ((await answer.json()) as { code: string }).code }).toEqual({
      path,
      status: 404,
      code: "NOT_FOUND",
    });
  }
});

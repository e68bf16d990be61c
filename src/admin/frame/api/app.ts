/** Mounts the routes of the API. Each request is authenticated and counted, then the route checks scope and fields. */
import { type Context, Hono } from "hono";
import { isRefusal, refuse } from "../../../base/refusal.ts";
import { NO_BODY, readJson, readQuery, toBodyRefusal, toJsonObject } from "../../../wire/mod.ts";
import { answerRefusal } from "../answer.ts";
import type { AdminEnv, AdminOptions } from "../options.ts";
import { authenticate } from "./authenticate.ts";
import { IDEMPOTENCY_KEY_PATTERN } from "./document_facts.ts";
import { toQuery } from "./parse_sent.ts";
import { perform, type Route } from "./route.ts";

/** Creates the app of `/admin/v1`. */
export function createApi(options: AdminOptions, all: readonly Route[]): Hono<AdminEnv> {
  const api = new Hono<AdminEnv>();
  api.use(authenticate(options));
  for (const route of all) api.on(route.method, route.path, (c) => serve(c, route, options));
  for (const [path, routes] of Map.groupBy(all, (route) => route.path)) {
    const methods = routes.map(({ method }) => (method === "GET" ? "GET, HEAD" : method)).join(", ");
    api.all(path, (c) => {
      c.header("Allow", methods);
      return answerRefusal(
        c,
        refuse("METHOD_NOT_ALLOWED", `${c.req.method.slice(0, 20)} is not allowed here`),
      );
    });
  }
  return api;
}

const IDEMPOTENCY_KEY = new RegExp(IDEMPOTENCY_KEY_PATTERN);
const NO_IDEMPOTENCY_KEY = refuse(
  "INVALID_REQUEST",
  "The header Idempotency-Key must be 16 to 255 printable ASCII characters: a repeated request with the same one gets the " +
    "same answer",
);

async function serve(c: Context<AdminEnv>, route: Route, options: AdminOptions): Promise<Response> {
  const { scope, operation } = route;
  const token = c.get("token");
  if (scope !== "any" && !token.scopes.includes(scope)) {
    return answerRefusal(c, refuse("SCOPE_REQUIRED", `The token needs the scope ${scope}`));
  }
  const { raw: request, method } = c.req;
  const isUnread = method === "GET" || method === "HEAD" || operation.file !== undefined;
  const body = toJsonObject(isUnread ? NO_BODY : await Promise.try(readJson, request).catch(toBodyRefusal));
  if (isRefusal(body)) return answerRefusal(c, body);
  const idempotencyKey = c.req.header("idempotency-key") ?? "";
  if (operation.needsIdempotencyKey && !IDEMPOTENCY_KEY.test(idempotencyKey)) {
    return answerRefusal(c, NO_IDEMPOTENCY_KEY);
  }
  const query = toQuery(readQuery(request));
  if (isRefusal(query)) return answerRefusal(c, query);
  const result = await perform(operation, options, {
    token,
    right: c.get("rightTo")(scope),
    rightTo: c.get("rightTo"),
    pauseTurn: c.get("pauseTurn"),
    restriction: token.restriction,
    // For the audit log. The schema of the operation checks the reason.
    actor: { ...c.get("actor"), ...(typeof body.reason === "string" && { reason: body.reason }) },
    now: options.clock.now(),
    params: c.req.param(),
    request,
    idempotencyKey,
    sent: { query, body },
  });
  if (isRefusal(result)) return answerRefusal(c, result);
  if (result instanceof Response) return result;
  return c.json(result, operation.success.status ?? 200);
}

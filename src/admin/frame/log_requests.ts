/** Gives each request its identifier and its headers, and logs changes, refusals, failures and slow requests. */
import type { MiddlewareHandler } from "hono";
import { type Actor, nameOfActor } from "../../audit/mod.ts";
import { newRequestId } from "../../base/ids.ts";
import { toClientAddress, toClientGroup } from "../../base/rate_limits/mod.ts";
import { redactQuery } from "../../base/secrets/mod.ts";
import { targetOf } from "../../wire/mod.ts";
import type { AdminEnv, AdminOptions } from "./options.ts";

/** Creates the middleware. */
export function logRequests(options: AdminOptions): MiddlewareHandler<AdminEnv> {
  const { clock, log, logSlowMs, trustedProxies, isStopping } = options;
  return async (c, next) => {
    const beganMs = clock.monotonicMs();
    const id = newRequestId();
    const forwardedFor = c.req.header("x-forwarded-for");
    const source = { peer: c.env.address(c.req.raw), forwardedFor, trustedProxies };
    const address = toClientAddress(source);
    c.set("requestId", id);
    c.set("address", address);
    c.set("addressGroup", toClientGroup(source));
    await next();
    const { method } = c.req;
    const { headers, status } = c.res;
    // Nobody reads this body. A list in progress would wait for its reader forever.
    if (method === "HEAD") await c.res.body?.cancel();
    headers.set("X-Request-Id", id);
    headers.set("X-Content-Type-Options", "nosniff");
    if (!headers.has("Cache-Control")) headers.set("Cache-Control", "no-store");
    if (isStopping()) headers.set("Connection", "close");
    const durationMs = clock.monotonicMs() - beganMs;
    const isRead = method === "GET" || method === "HEAD";
    if (isRead && status < 400 && durationMs - (c.get("waitedMs") ?? 0) < logSlowMs) return;
    const actor: Actor | undefined = c.get("actor");
    const kind = { status, method, code: c.get("code") };
    (status >= 500 ? log.warn : log.info)(
      "operator request",
      {
        request: id,
        method,
        path: redactQuery(targetOf(c.req.url)).slice(0, 200),
        status,
        code: c.get("code"),
        ms: Math.round(durationMs * 10) / 10,
        actor: actor && nameOfActor(actor),
        address,
      },
      status < 400 ? undefined : { kind, ...(status < 500 && { address }) },
    );
  };
}

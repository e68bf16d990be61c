/** The origin of the console, and the check that one of its pages sent the form. */
import type { Context, MiddlewareHandler } from "hono";
import { type Refusal, refuse } from "../../../base/refusal.ts";
import type { AdminEnv, AdminOptions } from "../options.ts";

type Show = (c: Context<AdminEnv>, refusal: Refusal) => Response | Promise<Response>;

const SAFE_METHODS = ["GET", "HEAD"];
const FOREIGN = refuse(
  "NOT_ALLOWED",
  "The request did not come from a page of this console; open the console again and repeat the change there",
);

/**
 * Returns the origin under which the browser reaches the console. The host check ran before, so without
 * `CLAVIGER_ADMIN_URL` the `Host` is a loopback name, with the port that the browser uses: `ssh -L` may change it.
 */
export function consoleOriginOf(c: Context<AdminEnv>, { adminUrl, isTls }: AdminOptions): URL {
  return new URL(adminUrl ?? `${isTls ? "https" : "http"}://${c.req.header("host")}`);
}

/**
 * Creates the middleware that refuses every request that can change something unless its `Origin` is the console's own.
 * SameSite cookies alone do not stop a page on another port of the same host.
 */
export function refuseForeignForms(options: AdminOptions, show: Show): MiddlewareHandler<AdminEnv> {
  return async (c, next) => {
    const isSafe = SAFE_METHODS.includes(c.req.method);
    if (isSafe || c.req.header("origin") === consoleOriginOf(c, options).origin) return await next();
    return await show(c, FOREIGN);
  };
}

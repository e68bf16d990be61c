/** The session of a browser: its cookie, and the check of each request. */
import type { Context, MiddlewareHandler } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import type { Actor } from "../../audit/mod.ts";
import { endSession, findSession, type Session } from "../../operators/mod.ts";
import type { AdminEnv, AdminOptions } from "../options.ts";
import { originOf } from "./origin.ts";

const COOKIE_VALUE = /^[0-9a-f]{64}$/;
/** The header by which `browser/refresh.client.js` says that no person asked for the page. */
const REFRESH_HEADER = "X-Refresh";

/**
 * Creates the middleware that finds the session with one statement, so that an ended session and a changed role count
 * from the next request on. Without a session it redirects to the login page. A page that refreshes itself does
 * not extend the session: otherwise an open page would keep its session alive for twelve hours.
 */
export function requireSession(options: AdminOptions): MiddlewareHandler<AdminEnv> {
  return async (c, next) => {
    const isRefresh = c.req.method === "GET" && c.req.header(REFRESH_HEADER) !== undefined;
    const session = await readSession(c, options, { extends: !isRefresh });
    if (session === undefined)
      return c.redirect(`/console/enter${hasCookie(c, options) ? "?ended" : ""}`, 303);
    c.set("session", session);
    c.set("actor", actorOf(c, session));
    return await next();
  };
}

/** Ends the earlier session of a browser: after another login nobody could use it. */
export async function endReplacedSession(
  c: Context<AdminEnv>,
  options: AdminOptions,
  session: Session,
): Promise<void> {
  await endSession(options.database, session.id, { actor: actorOf(c, session), now: options.clock.now() });
}

/** Finds the session of the browser. */
export async function readSession(
  c: Context<AdminEnv>,
  options: AdminOptions,
  how: { readonly extends: boolean },
): Promise<Session | undefined> {
  const value = getCookie(c, cookieOf(c, options).name) ?? "";
  if (!COOKIE_VALUE.test(value)) return undefined;
  return await findSession(options.database, value, { now: options.clock.now(), ...how });
}

function hasCookie(c: Context<AdminEnv>, options: AdminOptions): boolean {
  return (getCookie(c, cookieOf(c, options).name) ?? "") !== "";
}

function actorOf(c: Context<AdminEnv>, { operator }: Session): Actor {
  return { kind: "operator", name: operator, request: c.get("requestId"), address: c.get("address") };
}

/** Gives the browser the cookie of a session. It ends with the browser, and earlier with the session. */
export function setSessionCookie(c: Context<AdminEnv>, options: AdminOptions, value: string): void {
  const { name, attributes } = cookieOf(c, options);
  setCookie(c, name, value, attributes);
}

/** Deletes the session's cookie in the browser. */
export function deleteSessionCookie(c: Context<AdminEnv>, options: AdminOptions): void {
  const { name, attributes } = cookieOf(c, options);
  deleteCookie(c, name, attributes);
}

/**
 * Returns the name and the attributes of the cookie. The name contains the port that the browser uses, because browsers
 * send a cookie to every port of its host: two consoles behind two `ssh -L` must not replace each other's session.
 */
function cookieOf(c: Context<AdminEnv>, options: AdminOptions) {
  const { protocol, port } = originOf(c, options);
  const secure = protocol === "https:";
  const name = `claviger_${port === "" ? (secure ? 443 : 80) : port}`;
  return {
    name: secure ? `__Host-${name}` : name,
    attributes: { path: "/", secure, httpOnly: true, sameSite: "Strict" },
  } as const;
}

/** The session of a browser: its cookie, and the check of each request. */
import type { Context, MiddlewareHandler } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import type { Actor } from "../../../audit/mod.ts";
import { WindowTable } from "../../../base/rate_limits/mod.ts";
import { type Refusal, refuse } from "../../../base/refusal.ts";
import { endSession, findSession, type Login, type Session } from "../../../operators/mod.ts";
import type { AdminEnv, AdminOptions } from "../options.ts";
import { createTurns, TURNS } from "../turns.ts";
import { consoleOriginOf } from "./origin.ts";
import { askedPageOf } from "./way_back.ts";

/** The hexadecimal digits of a session in its cookie; the signature follows them. */
const DIGITS = 64;
/** Made-up cookies a minute from one address. */
const MADE_UP_LIMIT = 60;
const WINDOWS = 10_000;
const TOO_MANY_AT_ONCE = refuse(
  "RATE_LIMIT_EXCEEDED",
  "Too many pages were opened with your name at the same time: open fewer at once",
  { retryAfterSeconds: 1 },
);
/** The header by which `browser/refresh.client.js` says that no person asked for the page. */
const REFRESH_HEADER = "X-Refresh";

/**
 * Creates the middleware that finds the session with one statement, so that the end of a session and another role apply
 * from the next request. Without a session it redirects to the login page, which leads back. A page that refreshes
 * itself does not extend the session: otherwise an open page would keep its session alive for twelve hours.
 */
export function requireSession(
  options: AdminOptions,
  show: (c: Context<AdminEnv>, refusal: Refusal) => Response | Promise<Response>,
): MiddlewareHandler<AdminEnv> {
  const madeUp = new WindowTable(MADE_UP_LIMIT, WINDOWS);
  const takeTurn = createTurns(TURNS);
  return async (c, next) => {
    const isRefresh = c.req.method === "GET" && c.req.header(REFRESH_HEADER) !== undefined;
    const cookie = getCookie(c, sessionCookieOf(c, options).name);
    const session = await readSession(c, options, { extends: !isRefresh });
    if (session === undefined) {
      // A signed cookie without a session is that of an ended one: it may come often, from a page that was left open.
      if (cookie && digitsOf(cookie, options) === undefined) {
        const { allowed, retryAfterSeconds } = madeUp.take(
          c.get("addressGroup"),
          options.clock.monotonicMs(),
        );
        const wait = `Too many wrong session cookies came from your address: wait ${retryAfterSeconds} seconds`;
        if (!allowed) return await show(c, refuse("RATE_LIMIT_EXCEEDED", wait, { retryAfterSeconds }));
      }
      const to = encodeURIComponent(askedPageOf(c, options));
      return c.redirect(`/console/enter?${cookie ? "ended&" : ""}to=${to}`, 303);
    }
    c.set("session", session);
    c.set("actor", actorOf(c, session));
    // By operator: whoever logs in twice must not get twice the turns.
    const hadTurn = await takeTurn(session.operator, next);
    return hadTurn ? undefined : await show(c, TOO_MANY_AT_ONCE);
  };
}

/** Finds the session of the browser. A cookie that this service did not sign costs no statement. */
export async function readSession(
  c: Context<AdminEnv>,
  options: AdminOptions,
  how: { readonly extends: boolean },
): Promise<Session | undefined> {
  const value = digitsOf(getCookie(c, sessionCookieOf(c, options).name) ?? "", options);
  if (value === undefined) return undefined;
  return await findSession(options.database, value, { now: options.clock.now(), ...how });
}

/** Returns the digits of a signed cookie; undefined for any other text. */
function digitsOf(cookie: string, options: AdminOptions): string | undefined {
  const value = cookie.slice(0, DIGITS);
  return options.cookieSigner.verify([value], cookie.slice(DIGITS)) ? value : undefined;
}

/** Returns the operator of a session as the audit log names it. */
function actorOf(c: Context<AdminEnv>, { operator }: Pick<Session, "operator">): Actor {
  return { kind: "operator", name: operator, request: c.get("requestId"), address: c.get("address") };
}

/** Returns who logs in by a request, and for how long. */
export function loginOf(c: Context<AdminEnv>, { clock, sessionIdleMinutes }: AdminOptions): Login {
  const [request, address] = [c.get("requestId"), c.get("address")];
  return { now: clock.now(), request, address, idleMinutes: sessionIdleMinutes };
}

/** A session, as far as its end needs it. */
export type Replaced = Pick<Session, "id" | "operator">;

/**
 * Gives the browser the cookie of a session, and ends the session that it `replaced`, for which the browser has no cookie
 * then. The cookie ends with the browser, and earlier with the session.
 */
export async function startSession(
  c: Context<AdminEnv>,
  options: AdminOptions,
  { cookieValue, replaced }: { readonly cookieValue: string; readonly replaced: Replaced | undefined },
): Promise<void> {
  const { clock, cookieSigner, database } = options;
  if (replaced) await endSession(database, replaced.id, { actor: actorOf(c, replaced), now: clock.now() });
  const { name, attributes } = sessionCookieOf(c, options);
  setCookie(c, name, cookieValue + cookieSigner.sign([cookieValue]), attributes);
}

/** Deletes the session's cookie in the browser. */
export function deleteSessionCookie(c: Context<AdminEnv>, options: AdminOptions): void {
  const { name, attributes } = sessionCookieOf(c, options);
  deleteCookie(c, name, attributes);
}

/**
 * Returns the name and the attributes of the cookie. The name contains the port that the browser uses, because browsers
 * send a cookie to every port of its host: two consoles behind two `ssh -L` must not replace each other's session.
 */
export function sessionCookieOf(c: Context<AdminEnv>, options: AdminOptions) {
  const { protocol, port } = consoleOriginOf(c, options);
  const secure = protocol === "https:";
  const name = `claviger_${port === "" ? (secure ? 443 : 80) : port}`;
  return {
    name: secure ? `__Host-${name}` : name,
    attributes: { path: "/", secure, httpOnly: true, sameSite: "Strict" },
  } as const;
}

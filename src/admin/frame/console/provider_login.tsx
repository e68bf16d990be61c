/** @jsxImportSource hono/jsx */
/**
 * The login at the identity provider. It begins and ends with links, because the page's policy allows no form that
 * leads to another site. Between them the browser keeps what belongs to this login in a sealed cookie. That cookie is
 * `Lax`: the answer of the provider comes from another site. For the same reason the browser would not send the new
 * `Strict` cookie of the session after a redirect, so the answer is a page that goes on by itself.
 */
import type { Context } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import { LRUCache } from "lru-cache";
import { WindowTable } from "../../../base/rate_limits/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../../base/refusal.ts";
import type { LoginState, Provider } from "../../../operators/identity/mod.ts";
import { endSessionsOf, loginIdentity } from "../../../operators/mod.ts";
import type { AdminEnv, AdminOptions } from "../options.ts";
import { enterPage } from "./enter.tsx";
import type { LoginLimit } from "./login_limit.ts";
import type { Page } from "./page.tsx";
import { loginOf, type Replaced, readSession, sessionCookieOf, startSession } from "./session_cookie.ts";
import { FIRST_PAGE, wayBackOf } from "./way_back.ts";

type Show = (c: Context<AdminEnv>, page: Page) => Response | Promise<Response>;

/** Which page and which proof the login is for. */
type Where = Pick<Parameters<typeof enterPage>[0], "to" | "needsFreshProof">;

/** A login that has begun. */
interface Begun extends LoginState {
  readonly to: string;
  /** The session that the browser had. */
  readonly replaced?: Replaced;
  readonly expiresMs: number;
}

/** How many logins one group of addresses may begin in a minute, and how many logouts. Each costs requests to the provider. */
const STEP_LIMIT = 60;
const WINDOWS = 10_000;
const LIFE_SECONDS = 600;
/** The most ended logins that are remembered; the oldest are forgotten first. A login begins within {@linkcode STEP_LIMIT}. */
const MOST_ENDED = 10_000;
const PURPOSE = "provider-login";
/** The form of a state, as the library makes it, of which the name of the cookie has the first characters. */
const STATE = /^[\w-]{43}$/;
const STATE_IN_NAME = 8;

const STRANGE = refuse(
  "INVALID_TOKEN",
  "This login did not begin in this browser, was used already, or is older than ten minutes: log in again",
);
const FOREIGN = refuse("NOT_ALLOWED", "Another website led here: open the console and log in there");

/** Creates the handlers of the login at the provider. */
export function createProviderLogin(
  provider: Provider,
  options: AdminOptions,
  { limit, show }: { readonly limit: LoginLimit; readonly show: Show },
) {
  const { clock, database, secrets } = options;
  // Logouts have a window of their own, so that logouts of others at the same address cannot prevent a login. The end of a
  // login counts in no window: it needs the cookie of a login that has begun, and it works once.
  const begins = new WindowTable(STEP_LIMIT, WINDOWS);
  const leaves = new WindowTable(STEP_LIMIT, WINDOWS);
  const ended = new LRUCache<string, true>({ max: MOST_ENDED });

  /** The cookie of the login with a state; logins in several tabs have one each. */
  function cookieOf(c: Context<AdminEnv>, state: string) {
    const { name, attributes } = sessionCookieOf(c, options);
    const prefix = attributes.secure ? "__Secure-" : "";
    return {
      name: `${prefix}${name.replace(/^__Host-/, "")}_login_${state.slice(0, STATE_IN_NAME)}`,
      attributes: {
        ...attributes,
        path: new URL(provider.redirectUri).pathname,
        sameSite: "Lax",
        maxAge: LIFE_SECONDS,
      } as const,
    };
  }

  /** Returns the login that this browser began, and forgets it. */
  function takeBegun(c: Context<AdminEnv>): Begun | undefined {
    const state = c.req.query("state") ?? "";
    if (!STATE.test(state)) return undefined;
    const { name, attributes } = cookieOf(c, state);
    const text = secrets.open(PURPOSE, getCookie(c, name) ?? "");
    const login: Begun | undefined = text && JSON.parse(text);
    // The cookie is deleted below, but a client can keep it and send it again.
    if (login?.state !== state || ended.has(state)) return undefined;
    ended.set(state, true);
    deleteCookie(c, name, attributes);
    return login.expiresMs > clock.nowMs() ? login : undefined;
  }

  /** Refuses a step of an address that took too many. */
  function refuseStep(steps: WindowTable, c: Context<AdminEnv>): Refusal | undefined {
    const { allowed, retryAfterSeconds } = steps.take(c.get("addressGroup"), clock.monotonicMs());
    const wait = `Too many logins came from your address: wait ${retryAfterSeconds} seconds`;
    return allowed ? undefined : refuse("RATE_LIMIT_EXCEEDED", wait, { retryAfterSeconds });
  }

  function showRefusal(c: Context<AdminEnv>, providerRefusal: Refusal, where: Where) {
    return show(c, enterPage({ provider, providerRefusal, ...where }));
  }

  async function finish(c: Context<AdminEnv>, { to, replaced, ...state }: Begun): Promise<Page | Refusal> {
    const person = await provider.finish(new URL(c.req.url).searchParams, state);
    if (isRefusal(person)) return person;
    const by = loginOf(c, options);
    const { access } = person;
    if (access.role === undefined) {
      await endSessionsOf(database, person, by);
      return refuse("NOT_ALLOWED", `${provider.name} ${access.why}`);
    }
    const session = await loginIdentity(database, { ...person, role: access.role }, by);
    if (isRefusal(session)) return session;
    await startSession(c, options, { ...session, replaced });
    return {
      title: "You are logged in",
      isNarrow: true,
      goesTo: to,
      body: (
        <p>
          <a href={to}>Go on as {session.operator}</a>
        </p>
      ),
    };
  }

  return {
    /** Leads to the provider. */
    async begin(c: Context<AdminEnv>): Promise<Response> {
      const to = wayBackOf(c.req.query("to") ?? "");
      const isFresh = c.req.query("fresh") !== undefined;
      const again = (refusal: Refusal) => showRefusal(c, refusal, { to, needsFreshProof: isFresh });
      const login = isForeign(c) ? FOREIGN : (refuseStep(begins, c) ?? (await provider.begin(isFresh)));
      if (isRefusal(login)) return await again(login);
      const session = await readSession(c, options, { extends: false });
      const replaced = session && { id: session.id, operator: session.operator };
      const expiresMs = clock.nowMs() + LIFE_SECONDS * 1_000;
      const sealed = secrets.seal(PURPOSE, JSON.stringify({ ...login.state, to, replaced, expiresMs }));
      const { name, attributes } = cookieOf(c, login.state.state);
      setCookie(c, name, sealed, attributes);
      return c.redirect(login.address, 303);
    },
    /** Takes the answer of the provider, which the browser brings. */
    async callback(c: Context<AdminEnv>): Promise<Response> {
      const login = takeBegun(c);
      const answer = login === undefined ? STRANGE : await finish(c, login);
      if (!isRefusal(answer)) return await show(c, answer);
      // A provider that fails is nobody's failed login.
      const isFailedLogin = answer.code !== "SERVICE_UNAVAILABLE";
      const refusal = isFailedLogin ? limit.count(c.get("addressGroup"), answer) : answer;
      return await showRefusal(c, refusal, { to: login?.to ?? FIRST_PAGE, needsFreshProof: login?.isFresh });
    },
    /** Leads to the logout of the provider, after that of the console. */
    async leave(c: Context<AdminEnv>): Promise<Response> {
      const logout = isForeign(c) ? FOREIGN : (refuseStep(leaves, c) ?? (await provider.logoutAddress()));
      if (!isRefusal(logout)) return c.redirect(logout.address, 303);
      return await showRefusal(c, logout, { to: FIRST_PAGE });
    },
  };
}

/** Tells whether another website led the browser here, which must not begin or end anything. */
function isForeign(c: Context<AdminEnv>): boolean {
  return !["same-origin", "none", undefined].includes(c.req.header("sec-fetch-site"));
}

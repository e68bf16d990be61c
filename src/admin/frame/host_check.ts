/**
 * Refuses every request whose `Host` is not the admin listener's own, before anything else happens.
 *
 * Without this check a web page of any domain could read the console (DNS rebinding). The owner of the domain lets its
 * name resolve to 127.0.0.1, and then the browser takes the console for a part of that domain. But the browser still
 * sends the domain's name as `Host`.
 *
 * Only the header counts. `X-Forwarded-Host` and the host of an absolute request target are ignored, because a proxy
 * or a client that is not a browser can write anything there. Two headers, which the runtime joins by a comma, and a
 * name with a dot at its end are refused, because no browser sends them to the address that is set.
 */
import type { Context, MiddlewareHandler } from "hono";
import { isLoopback } from "../../base/listener_url.ts";
import { isInNetworks } from "../../base/rate_limits/mod.ts";
import { refuse } from "../../base/refusal.ts";
import { answerRefusal } from "./answer.ts";
import type { AdminEnv, AdminOptions } from "./options.ts";

/** Any port, so that `ssh -L 9000:127.0.0.1:8081` works. */
const LOOPBACK_HOST = /^(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?$/i;
const UNENCRYPTED = refuse(
  "MISDIRECTED_REQUEST",
  "This listener takes unencrypted requests only from the proxies in CLAVIGER_TRUSTED_PROXIES",
);
const OTHER_SITE = refuse("NOT_ALLOWED", "A page of another website sent this request, so it was refused");
const DEFAULT_PORTS: Readonly<Record<string, string>> = { "https:": ":443", "http:": ":80" };

/**
 * Returns a function that tells whether a `Host` is the listener's own: the host of `adminUrl`; without it, and only
 * on a loopback address, `127.0.0.1`, `localhost` and `[::1]` with any port.
 */
export function createHostCheck({
  adminUrl,
  isLoopback: isLocal,
}: Pick<AdminOptions, "adminUrl" | "isLoopback">): (host: string | undefined) => boolean {
  if (adminUrl === undefined) {
    // The origin of the console is made of this `Host`, so a port above 65535 must not pass.
    return (host = "") => isLocal && LOOPBACK_HOST.test(host) && URL.canParse(`http://${host}`);
  }
  const { host: own, port, protocol } = new URL(adminUrl);
  const accepted = port === "" ? [own, own + DEFAULT_PORTS[protocol]] : [own];
  return (host = "") => accepted.includes(host.toLowerCase());
}

/**
 * Creates the middleware that answers 421 for a foreign `Host`, before a body is read or the database is asked. Also
 * answers 421 for a request that crossed a network unencrypted: if the listener itself serves no https, only a trusted
 * proxy may send requests from other machines, because the proxy serves https. Answers 403 for a request that a page of
 * another site caused, before anything counts it; such a page may only lead a browser to a page of the console.
 */
export function refuseMisdirected(
  options: Pick<AdminOptions, "adminUrl" | "isLoopback" | "isTls" | "trustedProxies">,
): MiddlewareHandler<AdminEnv> {
  const isOwn = createHostCheck(options);
  const { adminUrl, isTls, isLoopback: isLocal, trustedProxies } = options;
  const address = adminUrl ?? "127.0.0.1, localhost or [::1]";
  const foreign = refuse(
    "MISDIRECTED_REQUEST",
    `This listener answers only at ${address}; the setting CLAVIGER_ADMIN_URL changes that`,
  );
  const isPrivate = (peer: string) =>
    isTls || isLocal || isLoopback(peer.replace(/^::ffff:/i, "")) || isInNetworks(peer, trustedProxies);

  return async (c, next) => {
    const refusal = !isOwn(c.req.header("host"))
      ? foreign
      : !isPrivate(c.env.address(c.req.raw))
        ? UNENCRYPTED
        : isFromOtherSite(c)
          ? OTHER_SITE
          : undefined;
    if (refusal === undefined) return await next();
    // The body stays unread, so the connection cannot carry another request.
    c.header("Connection", "close");
    return answerRefusal(c, refusal);
  };
}

/** Browsers say which site caused a request; `none` is a person. Programs say nothing. */
function isFromOtherSite(c: Context<AdminEnv>): boolean {
  const site = c.req.header("sec-fetch-site") ?? "none";
  if (site === "none" || site === "same-origin") return false;
  const isVisit = c.req.method === "GET" && c.req.header("sec-fetch-mode") === "navigate";
  return !(isVisit && /^\/(console(\/.*)?)?$/.test(c.req.path));
}

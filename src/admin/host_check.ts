/**
 * Refuses every request whose `Host` is not the admin listener's own, before anything else happens.
 *
 * Without this check a web page of any domain could read the console: its owner lets the domain's name resolve to
 * 127.0.0.1 (DNS rebinding), and then the browser takes the console for a part of that domain. The browser still sends
 * the domain's name as `Host`.
 *
 * Only the header counts. `X-Forwarded-Host` and the host of an absolute request target are ignored, because a proxy
 * or a client that is not a browser can write anything there. Two headers, which the runtime joins by a comma, and a
 * name with a dot at its end are refused, because no browser sends them to the address that is set.
 */
import type { MiddlewareHandler } from "hono";

export interface HostCheckOptions {
  /** The origin of `CLAVIGER_ADMIN_URL`; undefined if it is not set. */
  readonly adminUrl: string | undefined;
  /** Whether the listener is on a loopback address. */
  readonly isLoopback: boolean;
}

/** Any port, so that `ssh -L 9000:127.0.0.1:8081` works. */
const LOOPBACK_HOST = /^(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?$/i;
const DEFAULT_PORTS: Readonly<Record<string, string>> = { "https:": ":443", "http:": ":80" };

/**
 * Returns a function that tells whether a `Host` is the listener's own: the host of `adminUrl`; without it, and only
 * on a loopback address, `127.0.0.1`, `localhost` and `[::1]` with any port.
 */
export function createHostCheck({
  adminUrl,
  isLoopback,
}: HostCheckOptions): (host: string | undefined) => boolean {
  if (adminUrl === undefined) return (host = "") => isLoopback && LOOPBACK_HOST.test(host);
  const { host: own, port, protocol } = new URL(adminUrl);
  const accepted = port === "" ? [own, own + DEFAULT_PORTS[protocol]] : [own];
  return (host = "") => accepted.includes(host.toLowerCase());
}

/** Returns the middleware that answers 421 for a foreign `Host`. It must be the first one of the app. */
export function refuseForeignHost(options: HostCheckOptions): MiddlewareHandler {
  const isOwn = createHostCheck(options);
  const expected = options.adminUrl ?? "127.0.0.1, localhost or [::1]";
  const body = {
    error: `This listener answers only at ${expected}; CLAVIGER_ADMIN_URL sets another address`,
    code: "MISDIRECTED_REQUEST",
  };
  // The body stays unread, so the connection cannot carry another request.
  const headers = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    Connection: "close",
  };
  return async (c, next) => (isOwn(c.req.header("host")) ? await next() : c.json(body, 421, headers));
}

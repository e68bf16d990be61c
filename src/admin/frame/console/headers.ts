import type { MiddlewareHandler } from "hono";
import type { AdminEnv, AdminOptions } from "../options.ts";
import { consoleOriginOf } from "./origin.ts";

/** A page loads nothing from elsewhere, runs nothing inline, and is shown in no frame. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join("; ");

const HEADERS = {
  "Content-Security-Policy": CONTENT_SECURITY_POLICY,
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  // Not `no-referrer`: then browsers send `Origin: null` with our own forms.
  "Referrer-Policy": "same-origin",
  "X-Frame-Options": "DENY",
};

/** A year. Subdomains are not included: they are not ours. */
const HSTS = "max-age=31536000";

/** Creates the middleware that sets the same headers for every answer of the console, pages and files. */
export function setHeaders(options: AdminOptions): MiddlewareHandler<AdminEnv> {
  return async (c, next) => {
    await next();
    for (const [name, value] of Object.entries(HEADERS)) c.header(name, value);
    const { protocol, port } = consoleOriginOf(c, options);
    // Browsers apply it to every port of the host, so it is sent only by the port that https has by default.
    if (protocol === "https:" && port === "") c.header("Strict-Transport-Security", HSTS);
  };
}

/** The type of a handler, and the dependencies that handlers use. */
import type { Eventually, JsonObject } from "../wire/mod.ts";
import type { AppOptions } from "./app_options.ts";
import type { Authenticator } from "./authenticate.ts";
import type { DownloadLinks } from "./download_link.ts";
import type { Exchange, Outcome } from "./exchange.ts";

/** The argument of the functions that create handlers. */
export interface HandlerDeps extends AppOptions {
  readonly authenticator: Authenticator;
  readonly links: DownloadLinks;
}

/**
 * Answers one request whose path and method are right; `body` is empty for GET. An answer from memory comes at once,
 * without a promise: nearly every request has one.
 */
export type Handler = (exchange: Exchange, body: JsonObject) => Eventually<Outcome>;

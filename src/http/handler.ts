/** What a handler is, and what it is made from. */
import type { Brand } from "../brand.ts";
import type { Clock } from "../clock.ts";
import type { Database } from "../database/mod.ts";
import type { LimitedEndpoint } from "../endpoints.ts";
import type { TokenSource } from "../installer/mod.ts";
import type { KeyDirectory } from "../keys/mod.ts";
import type { TrustedProxies } from "../limits/mod.ts";
import type { Log, LogRequests } from "../log.ts";
import type { EventWriter } from "../usage/mod.ts";
import type { Authenticator } from "./authenticate.ts";
import type { Exchange, Outcome } from "./exchange.ts";
import type { JsonObject } from "./read_body.ts";

export interface AppOptions {
  readonly brand: Brand;
  readonly limits: Readonly<Record<LimitedEndpoint, number>>;
  readonly trustedProxies: TrustedProxies;
  readonly logRequests: LogRequests;
  readonly clock: Clock;
  readonly log: Log;
  readonly database: Database;
  readonly directory: KeyDirectory;
  readonly events: EventWriter;
  readonly tokens: TokenSource;
  /** True from the moment the service was told to stop. */
  readonly isStopping: () => boolean;
}

/** What handlers are made from. */
export interface Parts extends AppOptions {
  readonly authenticator: Authenticator;
}

/** Answers one request whose path and method are right; `body` is empty for GET. */
export type Handler = (exchange: Exchange, body: JsonObject) => Promise<Outcome>;

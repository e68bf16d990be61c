import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/log.ts";
import type { Platform } from "../base/platform/mod.ts";
import type { Refusal } from "../base/refusal.ts";
import type { Secrets } from "../base/secrets/mod.ts";
import type { Database } from "../database/mod.ts";
import type { Config, ListenAddress } from "../installation/config/mod.ts";
import type { Installation } from "../installation/mod.ts";
import type { KeyDirectory } from "../licensing/keys/mod.ts";
import type { EventGathering } from "../usage/mod.ts";
import type { StopOrder } from "./stop_order.ts";

export interface ServiceOptions {
  readonly config: Config;
  /**
   * Where clients reach a demo that has no public address. Links and texts name this address, signed licenses do not.
   */
  readonly reachedAt?: string | undefined;
  readonly platform: Platform;
  readonly clock: Clock;
  readonly log: Log;
  /** An installation that is already open; by default the settings say which one to open. */
  readonly installation?: Installation;
  /** Called after the stores are open: a demo adds its data. */
  readonly onOpened?: (installation: OpenInstallation) => void;
  /**
   * Finds addresses for operators if the settings name none, as for a demo. The service listens at the first one that
   * can be used.
   */
  readonly findAdminAddresses?: (database: Database) => Promise<readonly ListenAddress[]>;
  /** How events are gathered into commits: for a benchmark, not for operators. */
  readonly eventGathering?: EventGathering;
}

/** The stores of a service, for the preparation of a demo. */
export interface OpenInstallation {
  readonly installation: Installation;
  readonly database: Database;
  readonly secrets: Secrets;
}

export interface Service {
  readonly host: string;
  readonly port: number;
  /** The address for clients on this machine, such as `https://127.0.0.1:8443`. */
  readonly url: string;
  /** The listener for metrics, if there is one. */
  readonly metrics: { readonly host: string; readonly port: number } | undefined;
  /** The listener for operators, if there is one: its own address, and the address under which they reach it. */
  readonly admin:
    | { readonly host: string; readonly port: number; readonly origin: string; readonly url: string }
    | undefined;
  /** Where the data is, in words. */
  readonly place: string;
  readonly database: Database;
  readonly directory: KeyDirectory;
  /**
   * Reads the certificate again and uses it for new connections. If it cannot be used, the old one stays. The log has
   * the outcome. Undefined without TLS.
   */
  readonly reload: (() => Promise<void>) | undefined;
  readonly isAlive: KeyDirectory["isAlive"];
  /** Resolves to the reason when the service has to end because its data is gone or damaged; otherwise never. */
  readonly ending: Promise<Refusal>;
  readonly stop: StopOrder["stop"];
}

import type { Clock } from "../base/clock.ts";
import type { Log, LogRequests } from "../base/log.ts";
import type { Platform } from "../base/platform/mod.ts";
import type { Limiter, TrustedProxies } from "../base/rate_limits/mod.ts";
import type { Signer } from "../base/secrets/mod.ts";
import type { Database } from "../database/mod.ts";
import type { KeyDirectory } from "../licensing/keys/mod.ts";
import type { Heartbeats, NameMachine } from "../licensing/machines/mod.ts";
import type { Brand, LicenseChanges } from "../licensing/mod.ts";
import type { LicenseSigner, PublishedKeys } from "../licensing/signed_licenses/mod.ts";
import type { FileDirectory, ServedFiles } from "../models/mod.ts";
import type { TokenSource } from "../models/repository_token/mod.ts";
import type { EventWriter } from "../usage/mod.ts";
import type { LimitedEndpoint } from "../wire/mod.ts";
import type { RequestMetrics } from "./metrics/request_metrics.ts";

/** The settings and the parts of the service that answer clients. */
export interface AppOptions {
  readonly brand: Brand;
  readonly limits: Readonly<Record<LimitedEndpoint, number>>;
  readonly limiter: Limiter<LimitedEndpoint>;
  readonly trustedProxies: TrustedProxies;
  readonly logRequests: LogRequests;
  /** A request that takes this long or longer counts as slow. */
  readonly logSlowMs: number;
  readonly requestMetrics: RequestMetrics;
  readonly clock: Clock;
  readonly log: Log;
  readonly database: Database;
  readonly directory: KeyDirectory;
  readonly licenseChanges: LicenseChanges;
  readonly events: EventWriter;
  readonly tokens: TokenSource;
  /** The address at which clients reach the service, without a slash at its end; undefined if it is not set. */
  readonly publicUrl: string | undefined;
  readonly files: FileDirectory;
  readonly servedFiles: ServedFiles;
  /** How many downloads one key may have in progress at once; 0 means no bound. */
  readonly downloadsPerKey: number;
  /** How many downloads the service may have in progress at once; 0 means no bound. */
  readonly downloadsAtOnce: number;
  /** Opens a part of a file as the body of an answer. */
  readonly fileBody: Platform["fileBody"];
  readonly sha256: Platform["sha256"];
  readonly linkSigner: Signer;
  /** Names licenses in the cache of model files, so that nobody learns them there. */
  readonly holderSigner: Signer;
  readonly heartbeats: Heartbeats;
  readonly nameMachine: NameMachine;
  readonly licenseSigner: LicenseSigner;
  /** The public keys that verify signed licenses. */
  readonly publishedKeys: () => Promise<PublishedKeys>;
  /** Tells whether the service was told to stop. */
  readonly isStopping: () => boolean;
  /** Returns the sentence for health if the data is damaged or gone; undefined otherwise. */
  readonly dataFault?: (() => string | undefined) | undefined;
}

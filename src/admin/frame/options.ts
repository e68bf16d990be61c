/** The options of the listener for operators, and the facts about a request that its middleware finds out. */
import type { Actor, AuditWaits, Right } from "../../audit/mod.ts";
import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/log.ts";
import type { Peer } from "../../base/platform/mod.ts";
import type { InFlight, TrustedProxies } from "../../base/rate_limits/mod.ts";
import type { Secrets, Signer } from "../../base/secrets/mod.ts";
import type { Database } from "../../database/mod.ts";
import type { KeyDirectory } from "../../licensing/keys/mod.ts";
import type { Brand, LicenseChanges } from "../../licensing/mod.ts";
import type { LicenseSigner } from "../../licensing/signed_licenses/mod.ts";
import type { ModelsPlace, Uploads } from "../../models/mod.ts";
import type { Provider } from "../../operators/identity/mod.ts";
import type { FailedLogins, Scope, Session, Token } from "../../operators/mod.ts";
import type { ReportImports } from "../../usage/mod.ts";
import type { Examination, ExaminationOptions } from "./examination.ts";
import type { PauseTurn } from "./turns.ts";

/** The options of the app, which makes {@linkcode AdminOptions} of them. */
export interface AdminAppOptions
  extends ExaminationOptions,
    Omit<AdminOptions, "examination" | "apiDocument" | "cookieSigner"> {}

export interface AdminOptions {
  readonly brand: Brand;
  readonly clock: Clock;
  readonly log: Log;
  /** A pool of its own, so that a slow list never delays a client. */
  readonly database: Database;
  readonly secrets: Secrets;
  readonly licenseSigner: Pick<
    LicenseSigner,
    "export" | "foresee" | "foreseeNext" | "offlineDays" | "signManifest"
  >;
  /** Changes with the pool of operators. A revoked key is refused as soon as its change is answered. */
  readonly licenseChanges: LicenseChanges;
  /** Tells whether the database answers. */
  readonly directory: Pick<KeyDirectory, "isTrusted">;
  readonly trustedProxies: TrustedProxies;
  /** The address at which clients reach the service, without a slash at its end; undefined if it is not set. */
  readonly publicUrl: string | undefined;
  /** The file with the message for a customer who gets a key; undefined for the usual message. */
  readonly customerMessageFile: string | undefined;
  /** The address under which operators reach the listener, without a slash at its end; undefined if it is not set. */
  readonly adminUrl: string | undefined;
  /** The identity provider at which operators log in; undefined if they log in with codes alone. */
  readonly provider: Provider | undefined;
  readonly isLoopback: boolean;
  /** True if the listener serves https itself. */
  readonly isTls: boolean;
  /** The requests a minute of each endpoint for clients; 0 means unlimited. */
  readonly limits: Readonly<Record<string, number>>;
  readonly logSlowMs: number;
  /** Where readers of the audit log wait for rows. */
  readonly auditWaits: Pick<AuditWaits, "wait">;
  /** Bounds the lists that are downloaded as CSV at once. */
  readonly csvInFlight: InFlight;
  /** Bounds the bundles that are downloaded at once. */
  readonly bundlesInFlight: InFlight;
  /** Where the files of models are. */
  readonly modelsPlace: ModelsPlace;
  /** Begins to collect garbage; absent if the runtime cannot. */
  readonly collectGarbage?: (() => void) | undefined;
  /** Imports reports of use. */
  readonly reportImports: ReportImports;
  /** Receives the files of models. */
  readonly uploads: Uploads;
  /** This process in the list of processes. */
  readonly processUuid: string;
  /** When the certificate that is used now expires; undefined without one. */
  readonly certificateExpiresAt: () => Date | undefined;
  /** Examines the service, or returns the last examination if it is at most a minute old. */
  readonly examination: () => Examination;
  /** Returns the OpenAPI document of the API. */
  readonly apiDocument: () => string;
  /** Signs the cookies of sessions. */
  readonly cookieSigner: Signer;
  /**
   * Starts the computation of the stored figures if they are due, and returns at once. For requests that read the
   * figures.
   */
  readonly demandFigures: () => void;
  /** How many minutes without a request end a session. */
  readonly sessionIdleMinutes: number;
  /** Counts a login that failed for the audit log, by the group of its address. */
  readonly noteFailedLogin: FailedLogins["note"];
  /** Tells whether the service was told to stop. */
  readonly isStopping: () => boolean;
}

export interface AdminEnv {
  Bindings: Peer;
  Variables: {
    /** The identifier of the request, `req_…`. */
    requestId: string;
    /** The address that the request came from. */
    address: string;
    /** The group of addresses whose window counts wrong tokens. */
    addressGroup: string;
    /** Who asks, for the log and the audit log. Like the token, it is set when the request is authenticated. */
    actor: Actor;
    token: Token;
    /** Returns the right of the token to a route, for a request that takes long. */
    rightTo: (scope: Scope | "any") => Right;
    /** Gives the turn of the token back while the request waits. */
    pauseTurn: PauseTurn;
    /** How long the request waited without its turn, because it asked for that. */
    waitedMs: number | undefined;
    session: Session;
    /** The code of a refusal, for the log. */
    code: string | undefined;
  };
}

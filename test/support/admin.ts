/** Starts the listener for operators on port 0, with its own database: real HTTP, real PostgreSQL, a clock that moves. */
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createAdminApp } from "../../src/admin/app.ts";
import { createCsvInFlight } from "../../src/admin/frame/stream_csv.ts";
import { createBundlesInFlight } from "../../src/admin/keys/download_bundle.ts";
import type { AdminAppOptions } from "../../src/admin/mod.ts";
import { createReportTurns } from "../../src/admin/open_admin_app.ts";
import { createAuditWaits } from "../../src/audit/mod.ts";
import { newUuid } from "../../src/base/ids.ts";
import { createLog, silentLog } from "../../src/base/log.ts";
import { bunPlatform } from "../../src/base/platform/bun/mod.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import type { Database } from "../../src/database/mod.ts";
import type { IssuedKey, IssueRequest } from "../../src/licensing/keys/mod.ts";
import { createLicenseChanges, isRestricted, type Restriction } from "../../src/licensing/mod.ts";
import { createLicenseSigner, ensureSigningKeys } from "../../src/licensing/signed_licenses/mod.ts";
import { createUploads, type UploadOptions } from "../../src/models/mod.ts";
import { issueToken, SCOPES, SCOPES_OF_RESTRICTED, type Scope } from "../../src/operators/mod.ts";
import { createReportImports } from "../../src/usage/mod.ts";
import { createTestClock, type TestClock } from "./clock.ts";
import { createTestDatabase, type TestDatabase } from "./database.ts";
import { MUCH_ROOM } from "./events.ts";
import { ACTOR, BRAND, issue } from "./issue.ts";
import { testFolder } from "./postgres.ts";
import { openSecrets } from "./secrets.ts";
import type { JsonResponse } from "./service.ts";

export interface TestAdmin {
  /** Such as `http://127.0.0.1:40123`. */
  readonly url: string;
  readonly clock: TestClock;
  /** Direct access to the tables. */
  readonly database: Database;
  readonly testDatabase: TestDatabase;
  /** The folder with the files of models. */
  readonly dataDir: string;
  /** The licenses whose cached keys were dropped. */
  readonly forgotten: string[];
  readonly logLines: string[];
  /** Issues a token, by default with every scope that it can have, and returns its text. */
  token(request?: TestToken): Promise<string>;
  /** Issues a key as a command would. */
  issue(request?: Partial<IssueRequest>): Promise<IssuedKey>;
  /** Sends a request to `/admin/v1` and the path. */
  call(method: string, path: string, options?: CallOptions): Promise<JsonResponse>;
  close(): Promise<void>;
}

export interface TestToken {
  readonly name?: string;
  readonly scopes?: readonly Scope[];
  readonly restriction?: Restriction;
  readonly sources?: readonly string[];
  readonly expiresAt?: Date;
}

export interface CallOptions {
  /** By default a token with every scope. */
  readonly token?: string;
  readonly body?: unknown;
  /** A body that is sent as it is. */
  readonly file?: string | Uint8Array | ReadableStream;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An export is valid for the days that an operator chooses, not for those of the tier. */
const NO_OFFLINE_DAYS = { free: 0, research: 0, commercial: 0, enterprise: 0 };

const AUDIT_POLL_MS = 20;

/** Several listeners may share a database, where names of tokens are unique. */
let tokens = 0;

export async function startAdmin(
  options: {
    readonly on?: TestDatabase;
    readonly clock?: TestClock;
    /** By default one that is free. */
    readonly port?: number;
    readonly admin?: Partial<AdminAppOptions>;
    /** By default a file of at most 1 MB may be uploaded. */
    readonly uploads?: Partial<UploadOptions>;
  } = {},
): Promise<TestAdmin> {
  const dataDir = mkdtempSync(join(testFolder(), "admin-"));
  const testDatabase = options.on ?? (await createTestDatabase());
  const clock = options.clock ?? createTestClock();
  const { database } = testDatabase;
  const logLines: string[] = [];
  const forgotten: string[] = [];
  const secrets = openSecrets();
  await ensureSigningKeys(database, { secrets, now: clock.now() });
  const licenseSigner = createLicenseSigner({
    database,
    secrets,
    brand: BRAND,
    publicUrl: undefined,
    offlineDays: NO_OFFLINE_DAYS,
  });
  const log = createLog({ format: "json", clock, write: (line) => void logLines.push(line) });
  const auditWaits = createAuditWaits({ database, log, pollMs: AUDIT_POLL_MS });
  const app = createAdminApp({
    brand: BRAND,
    clock,
    log,
    database,
    secrets,
    licenseSigner,
    licenseChanges: createLicenseChanges(options.admin?.database ?? database, {
      forgetLicense: (uuid) => void forgotten.push(uuid),
      forgetAll: () => void forgotten.push("all"),
    }),
    directory: { isTrusted: () => true },
    trustedProxies: [],
    publicUrl: "https://licenses.example.org",
    customerMessageFile: undefined,
    adminUrl: undefined,
    provider: undefined,
    isLoopback: true,
    isTls: false,
    limits: { validate: 100, models: 0 },
    logSlowMs: 1_000,
    auditWaits,
    csvInFlight: createCsvInFlight(),
    reportImports: createReportImports({
      ...{ database, log: silentLog, secrets },
      licenseSigner,
      textBounds: MUCH_ROOM,
      inTurn: createReportTurns(),
    }),
    bundlesInFlight: createBundlesInFlight(),
    modelsPlace: { dataDir, ...options.uploads },
    uploads: createUploads({ dataDir, clock, uploadMaxGb: 0.001, ...options.uploads }),
    processUuid: newUuid(),
    certificateExpiresAt: () => undefined,
    examine: async () => [{ name: "database", state: "ok", message: "PostgreSQL in the test's database" }],
    demandFigures() {},
    noteFailedLogin() {},
    sessionIdleMinutes: 30,
    isStopping: () => false,
    ...options.admin,
  });
  const listener = await bunPlatform.listen({
    host: "127.0.0.1",
    port: options.port ?? 0,
    maxBodyBytes: Number.MAX_SAFE_INTEGER,
    idleTimeoutSeconds: 30,
    answer: app.fetch,
  });
  const url = `http://127.0.0.1:${listener.port}`;
  let everyScope: Promise<string> | undefined;

  async function token({
    name,
    restriction = {},
    scopes = isRestricted(restriction) ? SCOPES_OF_RESTRICTED : SCOPES,
    ...rest
  }: TestToken = {}): Promise<string> {
    const request = { name: name ?? `token-${++tokens}`, scopes, restriction, ...rest };
    const issued = await issueToken(database, request, { brand: BRAND, actor: ACTOR, now: clock.now() });
    if (isRefusal(issued)) throw new Error(issued.sentence);
    return issued.token;
  }

  return {
    url,
    clock,
    database,
    testDatabase,
    dataDir,
    forgotten,
    logLines,
    token,
    issue: (request) => issue(database, { now: clock.now(), ...request }),
    async call(method, path, { token: given, body, file, headers = {} } = {}) {
      if (given === undefined) everyScope ??= token();
      const response = await fetch(`${url}/admin/v1${path}`, {
        method,
        headers: { authorization: `Bearer ${given ?? (await everyScope)}`, ...headers },
        ...(file !== undefined && { body: file as string }),
        ...(body !== undefined && { body: isSentAsItIs(body) ? body : JSON.stringify(body) }),
      });
      const text = await response.text();
      const isJson = response.headers.get("content-type")?.startsWith("application/json");
      return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
    },
    async close() {
      auditWaits.end();
      await listener.stop(1_000);
      if (options.on === undefined) await testDatabase.close();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

function isSentAsItIs(body: unknown): body is string | ReadableStream {
  return typeof body === "string" || body instanceof ReadableStream;
}

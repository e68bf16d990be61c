/**
 * Starts a service in this process on port 0, with its own database: real HTTP, real PostgreSQL. With
 * `TEST_PLATFORM=node` the service runs as a process on Node instead (see `node_process.ts`).
 */

import { createLog } from "../../src/base/log.ts";
import { bunPlatform } from "../../src/base/platform/bun/mod.ts";
import type { Platform } from "../../src/base/platform/mod.ts";
import type { Database, DatabaseAddress } from "../../src/database/mod.ts";
import type { Config } from "../../src/installation/config/mod.ts";
import { type IssuedKey, issueKey } from "../../src/licensing/keys/mod.ts";
import type { KeyMode, Tier } from "../../src/licensing/mod.ts";
import { type Service, startService } from "../../src/service/mod.ts";
import { LIMITED_ENDPOINTS } from "../../src/wire/mod.ts";
import { createTestClock, type TestClock } from "./clock.ts";
import { configOf } from "./config.ts";
import { createTestDatabase, type TestDatabase } from "./database.ts";
import { orThrow } from "./issue.ts";
import { type NodeProcessOptions, startNodeProcess } from "./node_process.ts";
import { TEST_SECRET } from "./secrets.ts";

export interface TestServiceOptions {
  /** Settings that replace the defaults; every limit is off unless it is set here. */
  readonly config?: Partial<Config>;
  /** Turns on the contract's limits; without this there are none. */
  readonly limits?: "default";
  readonly clock?: TestClock;
  /** An existing database, to run a second service on it as a second process would. */
  readonly on?: TestDatabase;
  /** Replaces parts of Bun's platform; only for a service in this process. */
  readonly platform?: Partial<Platform>;
  /** Whether the log gathers lines, as in `serve`; only for a service in this process. */
  readonly gathersLog?: boolean;
  /** Receives the log lines in place of `logLines`; only for a service in this process. */
  readonly writeLog?: (line: string) => void;
}

export interface TestService {
  readonly url: string;
  /** The process that serves: this process, or the one on Node. */
  readonly pid: number;
  readonly service: Service;
  readonly clock: TestClock;
  readonly config: Config;
  readonly address: DatabaseAddress;
  /** Direct access to the tables, to read them and to set them up. */
  readonly database: Database;
  readonly testDatabase: TestDatabase;
  /** The lines of the log so far. */
  readonly logLines: string[];
  issue(options?: IssueOptions): Promise<IssuedKey>;
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<JsonResponse>;
  get(path: string, headers?: Record<string, string>): Promise<JsonResponse>;
  /** Sends any request that `fetch` can send. */
  send(path: string, init: RequestInit): Promise<JsonResponse>;
  /** Moves the clock and makes the service poll for changes again. */
  advance(ms: number): Promise<void>;
  close(): Promise<void>;
  /** Closes the service at the end of the block of an `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

export interface IssueOptions {
  readonly email?: string;
  readonly name?: string;
  readonly organization?: string;
  readonly tier?: Tier;
  readonly mode?: KeyMode;
  readonly expiresAt?: Date;
  readonly monthlyLimit?: number;
}

export interface JsonResponse {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests read bodies of every shape.
  readonly body: any;
}

export const NO_LIMITS = limitsOf(0);

/** Returns the same limit per minute for every endpoint. */
export function limitsOf(perMinute: number): Config["limits"] {
  const limits = LIMITED_ENDPOINTS.map((endpoint) => [endpoint, perMinute]);
  return Object.fromEntries(limits) as Config["limits"];
}

/** True if the service under test is `dist/claviger.mjs`, in a process of its own on Node. */
export const ON_NODE = process.env.TEST_PLATFORM === "node";

/**
 * Makes a clock that only the test moves, so that a busy machine does not change what a window counts. It runs on Node,
 * where the service has a clock of its own.
 */
export const createStandingClock = (): TestClock => createTestClock(undefined, { stands: !ON_NODE });

export async function startTestService(options: TestServiceOptions = {}): Promise<TestService> {
  const testDatabase = options.on ?? (await createTestDatabase());
  const clock = options.clock ?? createTestClock();
  const base = configOf({ CLAVIGER_SECRET: TEST_SECRET });
  const config: Config = {
    ...base,
    port: 0,
    limits: options.limits === "default" ? base.limits : NO_LIMITS,
    logRequests: "all",
    ...options.config,
  };
  const { address } = testDatabase;
  const at = { config, clock, address };
  const started = await (ON_NODE ? startNodeProcess(at) : startHere(at, options));
  const { ready } = started;
  // A process on Node offers only its pulse; tests that need more of it are skipped there.
  const service = started.service as Service;
  const url = `http://${service.host}:${service.port}`;
  const { database } = testDatabase;
  let issued = 0;

  return {
    url,
    pid: started.pid,
    service,
    clock,
    config,
    address,
    database,
    testDatabase,
    get logLines() {
      return started.logLines;
    },
    async issue(issue = {}) {
      const request = {
        email: `person-${++issued}@example.org`,
        tier: "research",
        mode: "live",
        expiresAt: new Date(clock.now().getTime() + 365 * 86_400_000),
        ...issue,
        now: clock.now(),
      } as const;
      const by = { brand: config.brand, actor: { kind: "command", name: "test" } } as const;
      return orThrow(await issueKey(database, request, by));
    },
    async post(path, body, headers = {}) {
      await ready();
      return await request(url + path, {
        method: "POST",
        headers,
        body: typeof body === "string" ? body : JSON.stringify(body),
      });
    },
    async get(path, headers = {}) {
      await ready();
      return await request(url + path, { headers });
    },
    async send(path, init) {
      await ready();
      return await request(url + path, init);
    },
    async advance(ms) {
      clock.advance(ms);
      await service.directory.beat();
    },
    async close() {
      await service.stop(2_000);
      if (options.on === undefined) await testDatabase.close();
    },
    [Symbol.asyncDispose](this: TestService) {
      return this.close();
    },
  };
}

/** Starts a service in this process. It sees every move of the clock at once. */
async function startHere({ config, clock, address }: NodeProcessOptions, options: TestServiceOptions) {
  const logLines: string[] = [];
  const write = options.writeLog ?? ((line: string) => void logLines.push(line));
  const log = createLog({ format: "json", clock, write, gathers: options.gathersLog ?? false });
  const platform = { ...bunPlatform, ...options.platform };
  const installation = { address, place: "a test", close: async () => {} };
  const service = orThrow(await startService({ config, platform, clock, log, installation }));
  return { pid: process.pid, service, logLines, ready: async () => {} };
}

async function request(url: string, init: RequestInit): Promise<JsonResponse> {
  const response = await fetch(url, init);
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    body: text === "" ? undefined : JSON.parse(text),
  };
}

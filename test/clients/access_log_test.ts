/** The log has a line for each request, and never a key. */
import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { parseTrustedProxies } from "../../src/base/rate_limits/mod.ts";
import { ALL, call, ENDPOINTS } from "../support/endpoints.ts";
import { INSTALLER_TOKEN, setToken } from "../support/installer.ts";
import { issueIn, UNKNOWN_KEY } from "../support/keys.ts";
import { NO_LIMITS, ON_NODE, startTestService, type TestService } from "../support/service.ts";
import { useTestService } from "../support/use.ts";

const service = useTestService();

beforeAll(async () => {
  await setToken(service);
});
beforeEach(() => void service.logLines.splice(0));

const linesOf = ({ logLines }: TestService) =>
  logLines.map((line) => JSON.parse(line)).filter(({ message }) => message === "request");

test("A request is logged in one line with its identifier, its key's identifier, its status and its address", async () => {
  const key = await service.issue();
  const { headers } = await call(service, ENDPOINTS.validate, key.apiKey);
  const [line, ...more] = linesOf(service);
  expect(more).toEqual([]);
  expect(line).toMatchObject({
    level: "info",
    request: headers.get("x-request-id"),
    endpoint: "validate",
    method: "POST",
    path: "/v1/auth/validate",
    status: 200,
    key: key.id,
    address: "127.0.0.1",
  });
  expect(line.ms).toBeGreaterThanOrEqual(0);
  expect(line.code).toBeUndefined();
});

test("The line of a refused request has the refusal's code", async () => {
  await call(service, ENDPOINTS.validate, UNKNOWN_KEY);
  await service.get("/nothing");
  await service.send("/v1/models/list", { method: "OPTIONS" });
  const { apiKey } = await service.issue();
  for (const fields of [{ duration_ms: 1 }, { duration_ms: 2 }]) {
    await call(service, ENDPOINTS.analyticsLog, apiKey, { fields, headers: { "Idempotency-Key": "one" } });
  }
  expect(linesOf(service).filter(({ status }) => status >= 400)).toMatchObject([
    { status: 401, code: "INVALID_KEY" },
    { status: 404, code: "NOT_FOUND", endpoint: "other", path: "/nothing" },
    { status: 405, code: "METHOD_NOT_ALLOWED", method: "OPTIONS" },
    { status: 422, code: "INVALID_REQUEST" },
  ]);
});

test("The line of a refused key has the reason, which the client is not told", async () => {
  const answers = new Set<string>();
  for (const state of ["suspended", "revoked", "expired"] as const) {
    const { id, apiKey } = await issueIn(service, state);
    service.logLines.splice(0);
    const response = await call(service, ENDPOINTS.validate, apiKey);
    expect(linesOf(service)).toMatchObject([{ status: 401, reason: state, key: id }]);
    if (state !== "expired") answers.add(JSON.stringify(response.body));
  }
  const { apiKey: revoked } = await issueIn(service, "revoked");
  service.logLines.splice(0);
  answers.add(JSON.stringify((await call(service, ENDPOINTS.validate, UNKNOWN_KEY)).body));
  for (const key of [UNKNOWN_KEY, revoked]) await call(service, ENDPOINTS.revoke, key);
  await call(service, ENDPOINTS.validate, "no key");
  expect(linesOf(service).map(({ code, reason }) => [code, reason])).toEqual([
    ["INVALID_KEY", "unknown"],
    ["KEY_NOT_FOUND", "unknown"],
    ["KEY_NOT_FOUND", "revoked"],
    ["INVALID_FORMAT", undefined],
  ]);
  expect(answers.size).toBe(1);
});

test.skipIf(ON_NODE)(
  "Failures of the service write at most ten lines a second, however many clients get them",
  async () => {
    const lines: string[] = [];
    const proxies = parseTrustedProxies("127.0.0.1");
    const config = { trustedProxies: proxies.ok ? proxies.proxies : [] };
    const broken = await startTestService({ config, gathersLog: true, writeLog: (line) => lines.push(line) });
    const { apiKey } = await broken.issue();
    const clients = Array.from({ length: 60 }, (_, client) => `192.0.${client}.1`);
    await Promise.all(
      clients.map(async (client) => {
        const headers = { "X-API-Key": apiKey, "X-Forwarded-For": client };
        expect((await broken.get("/v1/installer/repo-token", headers)).status).toBe(503);
      }),
    );
    await broken.close();
    const written = lines
      .join("")
      .split("\n")
      .filter((line) => line.includes('"message":"request"'));
    // Twenty lines are possible if the requests fall into two seconds.
    expect(written.length).toBeLessThanOrEqual(20);
  },
);

test("The log redacts each parameter of a query that is not known to be harmless", async () => {
  const { apiKey } = await service.issue();
  await service.get(`/v1/models/list?api_key=${apiKey}&paradigm=p300&other=secret`);
  expect(linesOf(service)[0].path).toBe("/v1/models/list?api_key=[hidden]&paradigm=p300&other=[hidden]");
});

test("A line holds at most 200 characters of a path and says how long the path was", async () => {
  const paths = [
    `/${"x".repeat(900)}`,
    `/${"y".repeat(5_000)}`,
    `/c?${"d=1&".repeat(1_000)}`,
    `/${"z".repeat(199)}`,
  ];
  for (const path of paths) await service.get(path);
  await service.get(`/v1/models/list?${"paradigm=p300&".repeat(100)}`);
  expect(linesOf(service).map(({ path }) => path)).toEqual([
    `/${"x".repeat(199)}… (901 characters)`,
    "[unreadable]… (5001 characters)",
    `/c?${"d=[hidden]&".repeat(20).slice(0, 197)}… (4003 characters)`,
    `/${"z".repeat(199)}`,
    `${`/v1/models/list?${"paradigm=p300&".repeat(100)}`.slice(0, 200)}… (1416 characters)`,
  ]);
  expect(Math.max(...service.logLines.map((line) => line.length))).toBeLessThan(600);
});

test("No line contains a key or a token, wherever the client sent the key", async () => {
  const keys = [UNKNOWN_KEY];
  for (const state of ["active", "expired", "suspended", "revoked"] as const) {
    keys.push((await issueIn(service, state)).apiKey);
  }
  for (const key of keys) {
    const encoded = [...key].map((character) => `%${character.charCodeAt(0).toString(16)}`).join("");
    for (const endpoint of ALL.filter((each) => each !== ENDPOINTS.revoke)) {
      await call(service, endpoint, key);
      await call(service, endpoint, undefined, { headers: { "X-API-Key": key } });
      await service.post(endpoint.path, key);
      await service.get(`${endpoint.path}?api_key=${key}`);
      await service.get(`${endpoint.path}?${key}=1&type=${key}&paradigm=${encoded}`);
      await service.get(`${endpoint.path}/${key}`);
      await service.get(`/${encoded}`);
      await service.send(`${endpoint.path}?key=${key}`, { method: "DELETE" });
    }
    await call(service, ENDPOINTS.revoke, key, { fields: { reason: `because of ${key}` } });
    // In one second, the log would count the refusals after the tenth of a kind in one line.
    await service.advance(1_000);
  }
  expect(linesOf(service).length).toBeGreaterThan(200);
  const text = service.logLines.join("");
  for (const key of keys) expect(text).not.toContain(key.slice(-40));
  expect(text).not.toMatch(/_(live|test)_[0-9a-f]{8}/i);
  expect(text).not.toContain(INSTALLER_TOKEN);
});

describe("CLAVIGER_LOG_REQUESTS", () => {
  for (const [logRequests, lines] of [
    ["all", 150],
    ["sampled", 2],
    ["off", 0],
    ["1/40", 4],
    ["1/1", 150],
  ] as const) {
    test(`set to ${logRequests} logs ${lines} of 150 successes, and every refusal and revocation`, async () => {
      await using quiet = await startTestService({ config: { logRequests } });
      const { apiKey } = await quiet.issue();
      for (let i = 0; i < 150; i++) await call(quiet, ENDPOINTS.validate, apiKey);
      expect(linesOf(quiet)).toHaveLength(lines);
      for (let i = 0; i < 3; i++) await call(quiet, ENDPOINTS.validate, UNKNOWN_KEY);
      await call(quiet, ENDPOINTS.revoke, apiKey);
      expect(linesOf(quiet).slice(lines)).toMatchObject([
        { status: 401 },
        { status: 401 },
        { status: 401 },
        { status: 200, path: "/v1/auth/revoke" },
      ]);
    });
  }
});

// On Node the service is a process of its own, which gathers its lines as in production.
test.skipIf(ON_NODE)(
  "After ten refusals of one kind and address in a second, one line counts the others",
  async () => {
    const limits = { ...NO_LIMITS, validate: 20 };
    await using busy = await startTestService({ config: { limits }, gathersLog: true });
    const { apiKey } = await busy.issue();
    for (let i = 0; i < 300; i++) await busy.get(`/nothing/${i}`);
    for (let i = 0; i < 20; i++) await call(busy, ENDPOINTS.validate, UNKNOWN_KEY);
    for (let i = 0; i < 200; i++) await call(busy, ENDPOINTS.validate, UNKNOWN_KEY);
    for (let i = 0; i < 12; i++) await call(busy, ENDPOINTS.modelsList, apiKey);
    // Wait for the end of the second: the log uses real time.
    await Bun.sleep(1_200);
    const lines = busy.logLines.flatMap((text) => text.trimEnd().split("\n")).map((line) => JSON.parse(line));
    const of = (status: number) => lines.filter((line) => line.status === status);
    for (const [status, code, endpoint, total] of [
      [404, "NOT_FOUND", "other", 300],
      [401, "INVALID_KEY", "validate", 20],
      [429, "RATE_LIMIT_EXCEEDED", "validate", 200],
    ] as const) {
      const written = of(status).filter(({ message }) => message === "request");
      const counted = of(status).filter(({ message }) => message !== "request");
      expect(written.length).toBeLessThan(60);
      expect(written.length + counted.reduce((sum, { count }) => sum + count, 0)).toBe(total);
      expect(counted[0]).toMatchObject({ of: "request", endpoint, code, address: "127.0.0.1" });
    }
    expect(of(200)).toHaveLength(12);
  },
);

// On Node the service reads its settings as text, and no setting allows a fraction of a millisecond.
test.skipIf(ON_NODE)(
  "A success that took at least logSlowMs is logged even where successes are not",
  async () => {
    for (const [logSlowMs, lines] of [
      [0.001, 20],
      [60_000, 0],
    ] as const) {
      await using quiet = await startTestService({ config: { logRequests: "off", logSlowMs } });
      const { apiKey } = await quiet.issue();
      for (let i = 0; i < 20; i++) await call(quiet, ENDPOINTS.validate, apiKey);
      expect(linesOf(quiet)).toHaveLength(lines);
    }
  },
);

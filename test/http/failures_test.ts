/** What a client is told when the service itself is in trouble. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { createApp, createRequestMetrics } from "../../src/http/mod.ts";
import { createTokenSource } from "../../src/installer/mod.ts";
import { createLimiter } from "../../src/limits/mod.ts";
import { silentLog } from "../../src/log.ts";
import { createFileDirectory } from "../../src/models/mod.ts";
import { bunPlatform } from "../../src/platform/bun/mod.ts";
import { createSecrets, parseRootSecret } from "../../src/secrets/mod.ts";
import { createEventWriter } from "../../src/usage/mod.ts";
import { expectRefusal } from "../support/answers.ts";
import { ALL, call, ENDPOINTS } from "../support/endpoints.ts";
import { whileDatabaseFails, whileRegistryIsBroken } from "../support/faults.ts";
import { UNKNOWN_KEY } from "../support/keys.ts";
import { ON_NODE, startTestService, TEST_SECRET, type TestService } from "../support/service.ts";

let service: TestService;

beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.close());

for (const endpoint of ALL) {
  test(`${endpoint.title} is unavailable while the database is away, for cached keys too`, async () => {
    const { apiKey } = await service.issue();
    await call(service, ENDPOINTS.validate, apiKey);
    await whileDatabaseFails(service, async () => {
      for (const key of [apiKey, UNKNOWN_KEY]) {
        const answer = await call(service, endpoint, key);
        expectRefusal(answer, 503, "SERVICE_UNAVAILABLE");
        expect(answer.headers.get("retry-after")).toMatch(/^[1-9]\d*$/);
      }
      expectRefusal(await call(service, endpoint, "malformed"), 400, "INVALID_FORMAT");
    });
    expect((await call(service, ENDPOINTS.validate, apiKey)).status).toBe(200);
  });
}

test("GET /v1/models/list answers what nobody expected with a bare SERVER_ERROR", async () => {
  const { apiKey } = await service.issue();
  await whileRegistryIsBroken(service, async () => {
    const answer = await call(service, ENDPOINTS.modelsList, apiKey);
    expectRefusal(answer, 500, "SERVER_ERROR");
    expect(answer.body.error).not.toContain("models");
    expect(answer.headers.has("retry-after")).toBe(false);
  });
  const logged = service.logLines.map((line) => JSON.parse(line));
  expect(logged).toContainEqual(expect.objectContaining({ level: "error", message: "A request failed" }));
  expect(await call(service, ENDPOINTS.modelsList, apiKey)).toMatchObject({ status: 200 });
});

// On Node the parts of the service are in another process.
test.skipIf(ON_NODE)(
  "GET /api/health is unhealthy, and true of the database, while the service stops",
  async () => {
    const root = parseRootSecret(TEST_SECRET);
    if (!root.ok) throw new Error(root.error);
    const { clock, config, database, service: running } = service;
    const parts = { clock, database, log: silentLog };
    const stopping = createApp({
      ...config,
      ...parts,
      directory: running.directory,
      limiter: createLimiter(config.limits),
      requestMetrics: createRequestMetrics(),
      events: createEventWriter({
        ...parts,
        processUuid: crypto.randomUUID(),
        onCharged() {},
        onUnknown() {},
      }),
      tokens: createTokenSource({ ...parts, secrets: createSecrets(root.rootSecret) }),
      files: createFileDirectory(parts),
      modelsFolder: "/nowhere",
      fileBody: bunPlatform.fileBody,
      linkSigner: createSecrets(root.rootSecret).signer("download-link"),
      isStopping: () => true,
    });
    const response = await stopping(new Request("http://h/api/health"), { address: () => "" });
    expect(response.status).toBe(503);
    expect(await response.json()).toMatchObject({
      status: "unhealthy",
      database: "connected",
      error: "The service is stopping",
    });
  },
);

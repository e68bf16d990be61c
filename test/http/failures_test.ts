/** What a client is told when the service itself is in trouble. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { expectRefusal } from "../support/answers.ts";
import { ALL, call, ENDPOINTS } from "../support/endpoints.ts";
import { whileDatabaseFails, whileRegistryIsBroken } from "../support/faults.ts";
import { UNKNOWN_KEY } from "../support/keys.ts";
import { startTestService, type TestService } from "../support/service.ts";

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

test("GET /api/health is unhealthy, and true of the database, while the service stops", async () => {
  const own = await startTestService();
  // On Node by a signal: the grace is the setting's default, a second as well.
  const stopped = own.service.stop(5_000, { graceMs: 1_000 });
  try {
    let health = await own.get("/api/health");
    while (health.status === 200) health = await own.get("/api/health");
    expect(health).toMatchObject({
      status: 503,
      body: { status: "unhealthy", database: "connected", error: "The service is stopping" },
    });
    // What comes meanwhile is answered as ever.
    const { apiKey } = await own.issue();
    expect((await call(own, ENDPOINTS.validate, apiKey)).status).toBe(200);
  } finally {
    await stopped;
    await own.close();
  }
});

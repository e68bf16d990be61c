/** The answers to clients while the database fails, the code fails, or the service stops. */
import { expect, test } from "bun:test";
import { expectRefusal } from "../support/answers.ts";
import { ALL, call, ENDPOINTS } from "../support/endpoints.ts";
import { whileDatabaseFails, whileRegistryIsBroken } from "../support/failing_database.ts";
import { UNKNOWN_KEY } from "../support/keys.ts";
import { type JsonResponse, limitsOf, startTestService } from "../support/service.ts";
import { until } from "../support/until.ts";
import { useTestService } from "../support/use.ts";

const service = useTestService();

for (const endpoint of ALL) {
  test(`${endpoint.title} answers 503 while the database is away, for cached keys too`, async () => {
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

for (const endpoint of ALL) {
  test(`${endpoint.title} does not count requests during an outage`, async () => {
    await using narrow = await startTestService({
      on: service.testDatabase,
      config: { limits: limitsOf(3) },
    });
    const remaining = ({ headers }: JsonResponse) => Number(headers.get("x-ratelimit-remaining"));
    const { apiKey } = await narrow.issue();
    expect(remaining(await call(narrow, endpoint, apiKey, { fields: { reason: 5 } }))).toBe(2);
    expect(remaining(await call(narrow, endpoint, UNKNOWN_KEY))).toBe(2);
    await whileDatabaseFails(narrow, async () => {
      for (let times = 0; times < 10; times++) {
        for (const key of [apiKey, UNKNOWN_KEY]) {
          const answer = await call(narrow, endpoint, key);
          expectRefusal(answer, 503, "SERVICE_UNAVAILABLE");
          expect(remaining(answer)).toBe(2);
        }
      }
    });
    for (const left of [1, 0]) {
      expect(remaining(await call(narrow, endpoint, apiKey, { fields: { reason: 5 } }))).toBe(left);
      expect(remaining(await call(narrow, endpoint, UNKNOWN_KEY))).toBe(left);
    }
    for (const key of [apiKey, UNKNOWN_KEY]) expect((await call(narrow, endpoint, key)).status).toBe(429);
    // A window that was full before the outage stays full.
    await whileDatabaseFails(narrow, async () => {
      expectRefusal(await call(narrow, endpoint, apiKey), 429, "RATE_LIMIT_EXCEEDED");
    });
  });
}

test("GET /v1/models/list answers SERVER_ERROR without details to an unexpected error", async () => {
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

test("GET /api/health says while the service stops that it is unhealthy and the database connected", async () => {
  const own = await startTestService();
  // On Node the test stops the service by a signal, and the grace is the setting's default, also 1 s.
  const stopped = own.service.stop(5_000, { graceMs: 1_000 });
  try {
    // On a busy machine a late pulse is a reason of its own.
    const health = await until(async () => {
      const answer = await own.get("/api/health");
      return answer.body.database === "connected" && answer.status !== 200 && answer;
    });
    expect(health).toMatchObject({
      status: 503,
      body: { status: "unhealthy", database: "connected", error: "The service is stopping" },
    });
    // The service still answers other requests meanwhile.
    const { apiKey } = await own.issue();
    expect((await call(own, ENDPOINTS.validate, apiKey)).status).toBe(200);
  } finally {
    await stopped;
    await own.close();
  }
});

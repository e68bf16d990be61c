import { afterAll, beforeAll, expect, test } from "bun:test";
import { startTestService, type TestService } from "../support/service.ts";

let service: TestService;

beforeAll(async () => {
  service = await startTestService({ config: {} });
});
afterAll(() => service.close());

test("POST /v1/auth/validate answers with the license and the quota", async () => {
  const key = await service.issue({ name: "Ada", organization: "Engines" });
  const { status, body } = await service.post("/v1/auth/validate", { api_key: key.apiKey });
  expect(status).toBe(200);
  expect(body).toMatchObject({ valid: true, user_id: key.userId, name: "Ada", organization: "Engines" });
});

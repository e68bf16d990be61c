import { expect, test } from "bun:test";
import { createTestClock } from "../support/clock.ts";
import { issueUsedUp } from "../support/keys.ts";
import { useTestService } from "../support/use.ts";

const service = useTestService({ clock: createTestClock("2026-11-20T10:00:00Z") });

test("POST /v1/auth/refresh answers with the license and the quota, without the account", async () => {
  const key = await service.issue({ tier: "free", expiresAt: new Date("2027-01-02T03:04:05Z") });
  const { status, body } = await service.post("/v1/auth/refresh", { api_key: key.apiKey });
  expect(status).toBe(200);
  expect(body).toEqual({
    valid: true,
    license_type: "free",
    features: ["batch_inference"],
    quota: { monthly_limit: 10_000, used: 0, remaining: 10_000, resets_at: "2026-12-01T00:00:00Z" },
    expires_at: "2027-01-02T03:04:05Z",
  });
});

test("POST /v1/auth/refresh shows the reset time of a used-up quota", async () => {
  const key = await issueUsedUp(service);
  const { status, body } = await service.post("/v1/auth/refresh", { api_key: key.apiKey });
  expect(status).toBe(200);
  expect(body.quota).toEqual({ monthly_limit: 1, used: 1, remaining: 0, resets_at: "2026-12-01T00:00:00Z" });
});

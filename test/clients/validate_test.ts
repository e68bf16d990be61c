import { expect, test } from "bun:test";
import { NEVER_EXPIRES } from "../../src/base/calendar.ts";
import { createTestClock } from "../support/clock.ts";
import { useTestService } from "../support/use.ts";

const service = useTestService({ clock: createTestClock("2026-11-20T10:00:00Z") });

const validate = (apiKey: string) => service.post("/v1/auth/validate", { api_key: apiKey });

test("POST /v1/auth/validate answers with the account, the license and the quota", async () => {
  const key = await service.issue({
    email: "ada@example.org",
    name: "Ada",
    organization: "Engines",
    expiresAt: new Date("2027-11-20T10:00:00.750Z"),
  });
  const { status, body } = await validate(key.apiKey);
  expect(status).toBe(200);
  expect(body).toEqual({
    valid: true,
    user_id: key.userId,
    email: "ada@example.org",
    name: "Ada",
    organization: "Engines",
    license_type: "research",
    features: ["batch_inference", "streaming", "training", "calibration", "model_export"],
    quota: { monthly_limit: 50_000, used: 0, remaining: 50_000, resets_at: "2026-12-01T00:00:00Z" },
    expires_at: "2027-11-20T10:00:00Z",
  });
  expect(body.user_id).toMatch(/^usr_[0-9a-f]{12}7[0-9a-f]{19}$/);
});

test("POST /v1/auth/validate and /v1/auth/refresh answer with the same bytes in every version", async () => {
  const key = await service.issue({
    email: "bytes@example.org",
    name: 'Ada "Countess" 😀',
    tier: "commercial",
    expiresAt: new Date("2027-11-20T10:00:00.750Z"),
  });
  const bytesOf = async (path: string) => {
    const body = JSON.stringify({ api_key: key.apiKey });
    return await (await fetch(`${service.url}/v1/auth/${path}`, { method: "POST", body })).text();
  };
  const account = `"user_id":"${key.userId}","email":"bytes@example.org","name":"Ada \\"Countess\\" 😀","organization":"",`;
  const license =
    '"license_type":"commercial","features":["batch_inference","streaming","training","calibration","model_export",' +
    '"custom_models","priority_support"],"quota":{"monthly_limit":500000,"used":0,"remaining":500000,' +
    '"resets_at":"2026-12-01T00:00:00Z"},"expires_at":"2027-11-20T10:00:00Z"}';
  expect(await bytesOf("validate")).toBe(`{"valid":true,${account}${license}`);
  expect(await bytesOf("refresh")).toBe(`{"valid":true,${license}`);
});

test("POST /v1/auth/validate names an account without a name by its e-mail", async () => {
  const key = await service.issue({ email: "nameless@example.org" });
  const { body } = await validate(key.apiKey);
  expect(body).toMatchObject({ name: "nameless@example.org", organization: "" });
});

test("POST /v1/auth/validate gives a license that never expires the date 9999-12-31", async () => {
  const key = await service.issue({ expiresAt: NEVER_EXPIRES });
  expect((await validate(key.apiKey)).body.expires_at).toBe("9999-12-31T23:59:59Z");
});

const FREE = ["batch_inference"];
const RESEARCH = [...FREE, "streaming", "training", "calibration", "model_export"];
const COMMERCIAL = [...RESEARCH, "custom_models", "priority_support"];
const ENTERPRISE = [...COMMERCIAL, "on_premise"];

for (const { tier, monthlyLimit, features } of [
  { tier: "free", monthlyLimit: 10_000, features: FREE },
  { tier: "research", monthlyLimit: 50_000, features: RESEARCH },
  { tier: "commercial", monthlyLimit: 500_000, features: COMMERCIAL },
  { tier: "enterprise", monthlyLimit: null, features: ENTERPRISE },
] as const) {
  test(`POST /v1/auth/validate shows the features and the quota of the ${tier} tier`, async () => {
    const key = await service.issue({ tier });
    const { body } = await validate(key.apiKey);
    expect(body.license_type).toBe(tier);
    expect(body.features).toEqual(features);
    expect(body.quota).toMatchObject({ monthly_limit: monthlyLimit, remaining: monthlyLimit });
  });
}

test("POST /v1/auth/validate shows the license's own limit in place of the tier's", async () => {
  const key = await service.issue({ tier: "free", monthlyLimit: 77 });
  expect((await validate(key.apiKey)).body.quota).toMatchObject({ monthly_limit: 77, remaining: 77 });
});

test("POST /v1/auth/validate answers a test key as it answers a live one", async () => {
  const key = await service.issue({ mode: "test" });
  expect(key.apiKey).toMatch(/^svc_test_[0-9a-f]{48}$/);
  expect(await validate(key.apiKey)).toMatchObject({ status: 200, body: { valid: true } });
});

test("POST /v1/auth/validate escapes the special characters of an account's name", async () => {
  const name = 'Ada "the\\first" \u2028 Ł';
  const key = await service.issue({ name });
  expect((await validate(key.apiKey)).body.name).toBe(name);
});

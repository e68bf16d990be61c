/**
 * The order of checks: a request with two faults gets the answer to the earlier one.
 *
 *     path → method → content encoding → size → syntax → key present → key format → look-up → rate limit →
 *     key known and active → not expired → other fields → quota
 */
import { afterAll, beforeAll, test } from "bun:test";
import { expectRefusal } from "../support/answers.ts";
import { ALL, call, ENDPOINTS, WITH_BODY } from "../support/endpoints.ts";
import { expire, issueIn, issueUsedUp, UNKNOWN_KEY } from "../support/keys.ts";
import { startTestService, type TestService } from "../support/service.ts";

let service: TestService;
/** The same, with windows that are full from the first request on. */
let narrow: TestService;

const LIMITS = { validate: 1, refresh: 1, revoke: 1, repo_token: 1, models: 1, analytics: 1, downloads: 1 };

beforeAll(async () => {
  service = await startTestService();
  narrow = await startTestService({ config: { limits: LIMITS } });
});
afterAll(async () => {
  await service.close();
  await narrow.close();
});

const GZIP = { "Content-Encoding": "gzip" };
const TOO_LARGE = `{${" ".repeat(70_000)}`;
const event = ENDPOINTS.analyticsLog;

test("A wrong path comes before a wrong method", async () => {
  expectRefusal(await service.send("/v1/auth/nothing", { method: "DELETE" }), 404, "NOT_FOUND");
});

for (const { title, path } of WITH_BODY) {
  test(`PUT ${path}: the method comes before the content encoding`, async () => {
    const answer = await service.send(path, { method: "PUT", body: "{}", headers: GZIP });
    expectRefusal(answer, 405, "METHOD_NOT_ALLOWED");
  });

  test(`${title}: the content encoding comes before the size`, async () => {
    expectRefusal(await service.post(path, TOO_LARGE, GZIP), 415, "UNSUPPORTED_MEDIA_TYPE");
  });

  test(`${title}: the size comes before the syntax`, async () => {
    expectRefusal(await service.post(path, TOO_LARGE), 413, "PAYLOAD_TOO_LARGE");
  });

  test(`${title}: the syntax comes before the key's presence`, async () => {
    expectRefusal(await service.post(path, "{"), 400, "INVALID_REQUEST");
  });

  test(`${title}: the syntax comes before what a key in the header would give`, async () => {
    for (const key of ["malformed", UNKNOWN_KEY]) {
      expectRefusal(await service.post(path, "[]", { "X-API-Key": key }), 400, "INVALID_REQUEST");
    }
  });
}

for (const endpoint of ALL) {
  test(`${endpoint.title}: a missing or malformed key comes before the rate limit`, async () => {
    await call(narrow, endpoint, UNKNOWN_KEY);
    expectRefusal(await call(narrow, endpoint, undefined), 400, "MISSING_KEY");
    expectRefusal(await call(narrow, endpoint, "malformed"), 400, "INVALID_FORMAT");
  });

  test(`${endpoint.title}: the rate limit of the address comes before a key that is not known`, async () => {
    await call(narrow, endpoint, UNKNOWN_KEY);
    expectRefusal(await call(narrow, endpoint, UNKNOWN_KEY), 429, "RATE_LIMIT_EXCEEDED");
    const revoked = await issueIn(narrow, "revoked");
    expectRefusal(await call(narrow, endpoint, revoked.apiKey), 429, "RATE_LIMIT_EXCEEDED");
  });

  if (endpoint === ENDPOINTS.revoke) continue;
  for (const state of ["suspended", "expired"] as const) {
    test(`${endpoint.title}: the rate limit comes before a key that is ${state}`, async () => {
      const { apiKey } = await issueIn(narrow, state);
      await call(narrow, endpoint, apiKey);
      expectRefusal(await call(narrow, endpoint, apiKey), 429, "RATE_LIMIT_EXCEEDED");
    });
  }

  for (const state of ["suspended", "revoked"] as const) {
    test(`${endpoint.title}: ${state} comes before expired`, async () => {
      const key = await issueIn(service, state);
      await expire(service, key);
      expectRefusal(await call(service, endpoint, key.apiKey), 401, "INVALID_KEY");
    });
  }
}

const BAD_EVENT = { event_type: null, duration_ms: -1 };

test(`${event.title}: the rate limit comes before the other fields`, async () => {
  const { apiKey } = await narrow.issue();
  await call(narrow, event, apiKey);
  expectRefusal(await call(narrow, event, apiKey, { fields: BAD_EVENT }), 429, "RATE_LIMIT_EXCEEDED");
});

for (const [state, code] of [
  ["suspended", "INVALID_KEY"],
  ["expired", "KEY_EXPIRED"],
] as const) {
  test(`${event.title}: a key that is ${state} comes before the other fields`, async () => {
    const { apiKey } = await issueIn(service, state);
    expectRefusal(await call(service, event, apiKey, { fields: BAD_EVENT }), 401, code);
  });

  test(`${event.title}: a key that is ${state} comes before the quota`, async () => {
    const key = await issueIn(service, state, { monthlyLimit: 0 });
    expectRefusal(await call(service, event, key.apiKey), 401, code);
    expectRefusal(await call(service, ENDPOINTS.validate, key.apiKey), 401, code);
  });
}

test(`${event.title}: a missing event type comes before another field out of its domain`, async () => {
  const { apiKey } = await service.issue();
  expectRefusal(await call(service, event, apiKey, { fields: BAD_EVENT }), 400, "MISSING_EVENT_TYPE");
});

test(`${event.title}: the other fields come before the quota`, async () => {
  const { apiKey } = await issueUsedUp(service);
  expectRefusal(await call(service, event, apiKey, { fields: BAD_EVENT }), 400, "MISSING_EVENT_TYPE");
  const fields = { metadata: [] };
  expectRefusal(await call(service, event, apiKey, { fields }), 400, "INVALID_REQUEST");
});

test("POST /v1/auth/revoke: a key that is not found comes before the reason", async () => {
  const revoked = await issueIn(service, "revoked");
  for (const key of [UNKNOWN_KEY, revoked.apiKey]) {
    const answer = await call(service, ENDPOINTS.revoke, key, { fields: { reason: 5 } });
    expectRefusal(answer, 404, "KEY_NOT_FOUND");
  }
});

test("POST /v1/auth/revoke: the rate limit comes before the reason", async () => {
  const { apiKey } = await narrow.issue();
  const fields = { reason: 5 };
  expectRefusal(await call(narrow, ENDPOINTS.revoke, apiKey, { fields }), 400, "INVALID_REQUEST");
  expectRefusal(await call(narrow, ENDPOINTS.revoke, apiKey, { fields }), 429, "RATE_LIMIT_EXCEEDED");
});

test("GET /v1/models/list: the key comes before the other parameters", async () => {
  const answer = await service.get(`/v1/models/list?api_key=${UNKNOWN_KEY}&paradigm=%00`);
  expectRefusal(answer, 401, "INVALID_KEY");
});

/**
 * The order of checks: a request with two faults gets the answer to the earlier one.
 *
 *     path → method → content encoding → size → syntax → key present → key format → look-up → rate limit →
 *     key known and active → not expired → other fields → quota
 */
import { test } from "bun:test";
import { expectRefusal } from "../support/answers.ts";
import { ALL, call, ENDPOINTS, type Endpoint, WITH_BODY } from "../support/endpoints.ts";
import { expire, issueIn, issueUsedUp, UNKNOWN_KEY } from "../support/keys.ts";
import { limitsOf } from "../support/service.ts";
import { useTestService } from "../support/use.ts";

const service = useTestService();
/** A service whose windows are full after one request. */
const narrow = useTestService({ config: { limits: limitsOf(1) } });

const GZIP = { "Content-Encoding": "gzip" };
const tooLarge = ({ bodyLimitBytes }: Endpoint) => `{${" ".repeat(bodyLimitBytes)}`;
const event = ENDPOINTS.analyticsLog;

test("An unknown path is refused before a method that is not allowed", async () => {
  expectRefusal(await service.send("/v1/auth/nothing", { method: "DELETE" }), 404, "NOT_FOUND");
});

for (const endpoint of WITH_BODY) {
  const { title, path } = endpoint;

  test(`PUT ${path} refuses the method before the content encoding`, async () => {
    const answer = await service.send(path, { method: "PUT", body: "{}", headers: GZIP });
    expectRefusal(answer, 405, "METHOD_NOT_ALLOWED");
  });

  test(`${title} refuses a content encoding before the size`, async () => {
    expectRefusal(await service.post(path, tooLarge(endpoint), GZIP), 415, "UNSUPPORTED_MEDIA_TYPE");
  });

  test(`${title} refuses the size before the syntax`, async () => {
    expectRefusal(await service.post(path, tooLarge(endpoint)), 413, "PAYLOAD_TOO_LARGE");
  });

  test(`${title} refuses the syntax before a missing key`, async () => {
    expectRefusal(await service.post(path, "{"), 400, "INVALID_REQUEST");
  });

  test(`${title} refuses the syntax before a key in the header`, async () => {
    for (const key of ["malformed", UNKNOWN_KEY]) {
      expectRefusal(await service.post(path, "[]", { "X-API-Key": key }), 400, "INVALID_REQUEST");
    }
  });
}

for (const endpoint of ALL) {
  test(`${endpoint.title} refuses a missing or malformed key before the rate limit`, async () => {
    await call(narrow, endpoint, UNKNOWN_KEY);
    expectRefusal(await call(narrow, endpoint, undefined), 400, "MISSING_KEY");
    expectRefusal(await call(narrow, endpoint, "malformed"), 400, "INVALID_FORMAT");
  });

  test(`${endpoint.title} applies the rate limit of the address before it refuses an unknown key`, async () => {
    await call(narrow, endpoint, UNKNOWN_KEY);
    expectRefusal(await call(narrow, endpoint, UNKNOWN_KEY), 429, "RATE_LIMIT_EXCEEDED");
    const revoked = await issueIn(narrow, "revoked");
    expectRefusal(await call(narrow, endpoint, revoked.apiKey), 429, "RATE_LIMIT_EXCEEDED");
  });

  if (endpoint === ENDPOINTS.revoke) continue;
  for (const state of ["suspended", "expired"] as const) {
    test(`${endpoint.title} applies the rate limit before it refuses a ${state} key`, async () => {
      const { apiKey } = await issueIn(narrow, state);
      await call(narrow, endpoint, apiKey);
      expectRefusal(await call(narrow, endpoint, apiKey), 429, "RATE_LIMIT_EXCEEDED");
    });
  }

  for (const state of ["suspended", "revoked"] as const) {
    test(`${endpoint.title} refuses a key as ${state} before it refuses it as expired`, async () => {
      const key = await issueIn(service, state);
      await expire(service, key);
      expectRefusal(await call(service, endpoint, key.apiKey), 401, "INVALID_KEY");
    });
  }
}

const BAD_EVENT = { event_type: null, duration_ms: -1 };

test(`${event.title} applies the rate limit before it checks the other fields`, async () => {
  const { apiKey } = await narrow.issue();
  await call(narrow, event, apiKey);
  expectRefusal(await call(narrow, event, apiKey, { fields: BAD_EVENT }), 429, "RATE_LIMIT_EXCEEDED");
});

for (const [state, code] of [
  ["suspended", "INVALID_KEY"],
  ["expired", "KEY_EXPIRED"],
] as const) {
  test(`${event.title} refuses a ${state} key before the other fields`, async () => {
    const { apiKey } = await issueIn(service, state);
    expectRefusal(await call(service, event, apiKey, { fields: BAD_EVENT }), 401, code);
  });

  test(`${event.title} refuses a ${state} key before the quota`, async () => {
    const key = await issueIn(service, state, { monthlyLimit: 0 });
    expectRefusal(await call(service, event, key.apiKey), 401, code);
    expectRefusal(await call(service, ENDPOINTS.validate, key.apiKey), 401, code);
  });
}

test(`${event.title} refuses a missing event type before another invalid field`, async () => {
  const { apiKey } = await service.issue();
  expectRefusal(await call(service, event, apiKey, { fields: BAD_EVENT }), 400, "MISSING_EVENT_TYPE");
});

test(`${event.title} refuses the other fields before the quota`, async () => {
  const { apiKey } = await issueUsedUp(service);
  expectRefusal(await call(service, event, apiKey, { fields: BAD_EVENT }), 400, "MISSING_EVENT_TYPE");
  const fields = { metadata: [] };
  expectRefusal(await call(service, event, apiKey, { fields }), 400, "INVALID_REQUEST");
});

test("POST /v1/auth/revoke refuses a key that is not found before the reason", async () => {
  const revoked = await issueIn(service, "revoked");
  for (const key of [UNKNOWN_KEY, revoked.apiKey]) {
    const answer = await call(service, ENDPOINTS.revoke, key, { fields: { reason: 5 } });
    expectRefusal(answer, 404, "KEY_NOT_FOUND");
  }
});

test("POST /v1/auth/revoke applies the rate limit before it checks the reason", async () => {
  const { apiKey } = await narrow.issue();
  const fields = { reason: 5 };
  expectRefusal(await call(narrow, ENDPOINTS.revoke, apiKey, { fields }), 400, "INVALID_REQUEST");
  expectRefusal(await call(narrow, ENDPOINTS.revoke, apiKey, { fields }), 429, "RATE_LIMIT_EXCEEDED");
});

test("GET /v1/models/list refuses the key before the other parameters", async () => {
  const answer = await service.get(`/v1/models/list?api_key=${UNKNOWN_KEY}&paradigm=%00`);
  expectRefusal(answer, 401, "INVALID_KEY");
});

/** Which window counts a request, how the headers describe that window, and when it refuses. */
import { describe, expect, test } from "bun:test";
import { parseTrustedProxies } from "../../src/base/rate_limits/mod.ts";
import { expectRefusal } from "../support/answers.ts";
import { ALL, call, ENDPOINTS, type Endpoint, WITH_BODY } from "../support/endpoints.ts";
import { issueBeside, issueIn, issueUsedUp, UNKNOWN_KEY } from "../support/keys.ts";
import { createStandingClock, type JsonResponse, limitsOf, startTestService } from "../support/service.ts";
import { useForAll, useTestService } from "../support/use.ts";

const LIMIT = 3;
const LIMITS = limitsOf(LIMIT);

/** This service trusts X-Forwarded-For from this machine, so that each test uses its own addresses. */
const service = useForAll(async () => {
  const parsed = parseTrustedProxies("127.0.0.1, 10.0.0.0/8");
  if (!parsed.ok) throw new Error(parsed.error);
  const clock = createStandingClock();
  return await startTestService({ clock, config: { limits: LIMITS, trustedProxies: parsed.proxies } });
});

let addresses = 0;
/** Returns an address that no other test uses. */
const newAddress = () => `192.0.2.${++addresses}`;
const from = (address: string) => ({ headers: { "X-Forwarded-For": address } });
const tryKey = (key: string, address: string, endpoint: Endpoint = ENDPOINTS.validate) =>
  call(service, endpoint, key, from(address));

function windowOf({ headers }: JsonResponse) {
  const read = (name: string) => {
    const text = headers.get(`x-ratelimit-${name}`);
    expect(text).toMatch(/^\d+$/);
    return Number(text);
  };
  return { limit: read("limit"), remaining: read("remaining"), reset: read("reset") };
}
const remainingOf = (answer: JsonResponse) => windowOf(answer).remaining;

function hasLimitHeaders({ headers }: JsonResponse) {
  return [...headers.keys()].some((name) => name.startsWith("x-ratelimit"));
}

describe("By default", () => {
  const standard = useTestService({ limits: "default", clock: createStandingClock() });

  for (const endpoint of ALL) {
    test(`${endpoint.title} accepts ${endpoint.perMinute} requests a minute`, async () => {
      expect(standard.config.limits[endpoint.limit]).toBe(endpoint.perMinute);
      const { apiKey } = await standard.issue();
      const nowSeconds = standard.clock.now().getTime() / 1_000;
      const { limit, remaining, reset } = windowOf(await call(standard, endpoint, apiKey));
      expect({ limit, remaining }).toEqual({ limit: endpoint.perMinute, remaining: endpoint.perMinute - 1 });
      expect(reset - nowSeconds).toBeGreaterThanOrEqual(60);
      expect(reset - nowSeconds).toBeLessThan(63);
    });
  }
});

describe("A full window", () => {
  for (const endpoint of ALL.filter((each) => each !== ENDPOINTS.revoke)) {
    test(`of ${endpoint.title} refuses requests until Retry-After has passed`, async () => {
      const { apiKey } = await service.issue();
      for (const remaining of [2, 1, 0]) {
        expect(remainingOf(await call(service, endpoint, apiKey))).toBe(remaining);
      }
      const refused = await call(service, endpoint, apiKey);
      expectRefusal(refused, 429, "RATE_LIMIT_EXCEEDED");
      expect(remainingOf(refused)).toBe(0);
      const retryAfter = refused.headers.get("retry-after") ?? "";
      expect(retryAfter).toMatch(/^[1-9]\d*$/);
      expect(Number(retryAfter)).toBeLessThanOrEqual(61);
      await service.advance(Number(retryAfter) * 1_000);
      expect((await call(service, endpoint, apiKey)).status).not.toBe(429);
    });
  }

  test("of POST /v1/auth/revoke refuses clients that guess keys", async () => {
    const address = newAddress();
    for (let i = 0; i < LIMIT; i++) {
      expectRefusal(await tryKey(UNKNOWN_KEY, address, ENDPOINTS.revoke), 404, "KEY_NOT_FOUND");
    }
    expectRefusal(await tryKey(UNKNOWN_KEY, address, ENDPOINTS.revoke), 429, "RATE_LIMIT_EXCEEDED");
  });

  test("counts a request for at least 60 and at most 61 seconds", async () => {
    const { apiKey } = await service.issue();
    const validate = () => call(service, ENDPOINTS.validate, apiKey);
    for (let i = 0; i < LIMIT; i++) await validate();
    await service.advance(59_000);
    expectRefusal(await validate(), 429, "RATE_LIMIT_EXCEEDED");
    await service.advance(2_000);
    expect(remainingOf(await validate())).toBe(LIMIT - 1);
  });

  test("does not count refused requests", async () => {
    const { apiKey } = await service.issue();
    const validate = () => call(service, ENDPOINTS.validate, apiKey);
    for (let i = 0; i < LIMIT; i++) await validate();
    await service.advance(30_000);
    for (let i = 0; i < 5; i++) expectRefusal(await validate(), 429, "RATE_LIMIT_EXCEEDED");
    await service.advance(31_000);
    expect(remainingOf(await validate())).toBe(LIMIT - 1);
  });

  test("accepts exactly its limit of many requests at once", async () => {
    const { apiKey } = await service.issue();
    const answers = await Promise.all(
      Array.from({ length: 10 * LIMIT }, () => call(service, ENDPOINTS.validate, apiKey)),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(LIMIT);
  });

  for (const [what, wall] of [
    ["forward", "2031-01-01T00:00:00Z"],
    ["back", "2001-01-01T00:00:00Z"],
  ] as const) {
    test(`keeps its time when the wall clock steps ${what}`, async () => {
      const address = newAddress();
      for (let i = 0; i < LIMIT; i++) await tryKey(UNKNOWN_KEY, address);
      const present = service.clock.now();
      service.clock.setWall(wall);
      const refused = await tryKey(UNKNOWN_KEY, address);
      service.clock.setWall(present.toISOString());
      expectRefusal(refused, 429, "RATE_LIMIT_EXCEEDED");
      expect(Number(refused.headers.get("retry-after"))).toBeLessThanOrEqual(61);
    });
  }
});

describe("The three headers:", () => {
  const { validate, getRepoToken, revoke, analyticsLog } = ENDPOINTS;
  const cases: readonly (readonly [what: string, status: number, answer: () => Promise<JsonResponse>])[] = [
    ["200", 200, async () => call(service, validate, (await service.issue()).apiKey)],
    ["202", 202, async () => call(service, analyticsLog, (await service.issue()).apiKey)],
    ["400 of a missing key", 400, () => call(service, validate, undefined, from(newAddress()))],
    ["400 of a malformed key", 400, () => tryKey("malformed", newAddress())],
    ["400 of bad JSON", 400, () => service.post(validate.path, "{", from(newAddress()).headers)],
    [
      "400 of a bad field",
      400,
      async () => call(service, revoke, (await service.issue()).apiKey, { fields: { reason: 5 } }),
    ],
    ["401 of an unknown key", 401, () => tryKey(UNKNOWN_KEY, newAddress())],
    [
      "401 of an expired key",
      401,
      async () => call(service, validate, (await issueIn(service, "expired")).apiKey),
    ],
    ["404 of a revocation", 404, () => tryKey(UNKNOWN_KEY, newAddress(), revoke)],
    ["413", 413, () => service.post(validate.path, "x".repeat(70_000), from(newAddress()).headers)],
    [
      "415",
      415,
      () => service.post(validate.path, "", { "Content-Encoding": "br", ...from(newAddress()).headers }),
    ],
    ["429 of the quota", 429, async () => call(service, validate, (await issueUsedUp(service)).apiKey)],
    ["503 of a missing token", 503, async () => call(service, getRepoToken, (await service.issue()).apiKey)],
  ];
  for (const [what, status, answer] of cases) {
    test(`a ${what} has them`, async () => {
      const answered = await answer();
      expect(answered.status).toBe(status);
      expect(windowOf(answered)).toMatchObject({ limit: LIMIT, remaining: LIMIT - 1 });
    });
  }
});

describe("The window of a key", () => {
  for (const endpoint of ALL.filter((each) => each !== ENDPOINTS.revoke)) {
    for (const state of ["active", "suspended", "expired"] as const) {
      test(`counts ${endpoint.title} with a key that is ${state} from all addresses`, async () => {
        const { apiKey } = await issueIn(service, state);
        const [here, there] = [newAddress(), newAddress()];
        expect(remainingOf(await tryKey(apiKey, here, endpoint))).toBe(LIMIT - 1);
        expect(remainingOf(await tryKey(apiKey, there, endpoint))).toBe(LIMIT - 2);
        expect(remainingOf(await tryKey(UNKNOWN_KEY, here, endpoint))).toBe(LIMIT - 1);
      });
    }
  }

  test("is not shared by other keys at the same address", async () => {
    const address = newAddress();
    const [one, other] = [await service.issue(), await service.issue()];
    for (let i = 0; i < LIMIT; i++) await tryKey(one.apiKey, address);
    for (let i = 0; i <= LIMIT; i++) await tryKey(UNKNOWN_KEY, address);
    expectRefusal(await tryKey(one.apiKey, address), 429, "RATE_LIMIT_EXCEEDED");
    expect(remainingOf(await tryKey(other.apiKey, address))).toBe(LIMIT - 1);
  });

  test("is not shared by other keys of the same license", async () => {
    const key = await service.issue();
    const other = await issueBeside(service, key);
    await call(service, ENDPOINTS.validate, key.apiKey);
    expect(remainingOf(await call(service, ENDPOINTS.validate, other.apiKey))).toBe(LIMIT - 1);
  });

  test("is separate for each endpoint", async () => {
    const { apiKey } = await service.issue();
    const { validate, refresh, modelsList, getRepoToken, analyticsLog } = ENDPOINTS;
    for (const endpoint of [validate, refresh, modelsList, getRepoToken, analyticsLog]) {
      expect(remainingOf(await call(service, endpoint, apiKey))).toBe(LIMIT - 1);
    }
  });

  test("is the same for GET and POST of the installer token", async () => {
    const { apiKey } = await service.issue();
    await call(service, ENDPOINTS.getRepoToken, apiKey);
    expect(remainingOf(await call(service, ENDPOINTS.postRepoToken, apiKey))).toBe(LIMIT - 2);
  });
});

describe("The window of an address", () => {
  for (const endpoint of ALL) {
    test(`counts ${endpoint.title} with a key that is unknown, revoked, malformed or missing`, async () => {
      const address = newAddress();
      const revoked = await issueIn(service, "revoked");
      expect(remainingOf(await tryKey(UNKNOWN_KEY, address, endpoint))).toBe(2);
      expect(remainingOf(await tryKey(revoked.apiKey, address, endpoint))).toBe(1);
      expect(remainingOf(await tryKey("malformed", address, endpoint))).toBe(0);
      const missing = await call(service, endpoint, undefined, from(address));
      expectRefusal(missing, 400, "MISSING_KEY");
      expect(remainingOf(missing)).toBe(0);
      await service.advance(30_000);
      expectRefusal(await tryKey(UNKNOWN_KEY, address, endpoint), 429, "RATE_LIMIT_EXCEEDED");
    });
  }

  for (const { title, path } of WITH_BODY) {
    test(`counts ${title} with a body that is refused`, async () => {
      const { headers } = from(newAddress());
      const post = (body: string, more = {}) => service.post(path, body, { ...headers, ...more });
      expect(remainingOf(await post("{}", { "Content-Encoding": "gzip" }))).toBe(2);
      expect(remainingOf(await post("x".repeat(70_000)))).toBe(1);
      expect(remainingOf(await post("[]"))).toBe(0);
      expectRefusal(await post(JSON.stringify({ api_key: UNKNOWN_KEY })), 429, "RATE_LIMIT_EXCEEDED");
    });
  }

  for (const [what, one, same, other] of [
    ["an IPv4 address", "198.51.100.1", "198.51.100.1", "198.51.100.2"],
    ["an IPv4 address mapped into IPv6", "198.51.100.3", "::ffff:198.51.100.3", "::ffff:198.51.100.4"],
    ["an IPv6 network of /64", "2001:db8:0:1::1", "2001:db8:0:1:ffff::2", "2001:db8:0:2::1"],
    [
      "the client that the last trusted proxy saw",
      "203.0.113.1, 198.51.100.5",
      "198.51.100.5, 10.1.2.3",
      "198.51.100.6",
    ],
  ] as const) {
    test(`counts the requests of ${what} together`, async () => {
      await tryKey(UNKNOWN_KEY, one);
      expect(remainingOf(await tryKey(UNKNOWN_KEY, same))).toBe(LIMIT - 2);
      expect(remainingOf(await tryKey(UNKNOWN_KEY, other))).toBe(LIMIT - 1);
    });
  }

  test("counts by the peer's address if the peer is not a trusted proxy", async () => {
    await using direct = await startTestService({ config: { limits: LIMITS } });
    await call(direct, ENDPOINTS.validate, UNKNOWN_KEY, from("198.51.100.7"));
    const answer = await call(direct, ENDPOINTS.validate, UNKNOWN_KEY, from("198.51.100.8"));
    expect(remainingOf(answer)).toBe(LIMIT - 2);
  });
});

describe("A limit of 0", () => {
  const unlimited = useTestService();

  for (const endpoint of ALL) {
    test(`admits all requests to ${endpoint.title}, without limit headers`, async () => {
      const { apiKey } = await unlimited.issue();
      for (const key of [apiKey, UNKNOWN_KEY, "malformed"]) {
        for (let i = 0; i < 12; i++) {
          const answer = await call(unlimited, endpoint, key);
          expect(answer.status).not.toBe(429);
          expect(hasLimitHeaders(answer)).toBe(false);
        }
      }
    });
  }
});

test("GET /api/health is never limited and has no limit headers", async () => {
  for (let i = 0; i < 12; i++) {
    const answer = await service.get("/api/health");
    expect(answer.status).toBe(200);
    expect(hasLimitHeaders(answer)).toBe(false);
  }
});

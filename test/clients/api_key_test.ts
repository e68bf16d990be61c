/** The places, the format and the states of a key, on every endpoint. */
import { beforeAll, describe, expect, test } from "bun:test";
import { expectRefusal } from "../support/answers.ts";
import { createTestClock } from "../support/clock.ts";
import { ALL, call, ENDPOINTS, WITH_BODY } from "../support/endpoints.ts";
import { setToken } from "../support/installer.ts";
import { issueIn, UNKNOWN_KEY } from "../support/keys.ts";
import { ON_NODE, startTestService } from "../support/service.ts";
import { useTestService } from "../support/use.ts";

const service = useTestService();

beforeAll(async () => {
  await setToken(service);
});

const withHeader = (key: string) => ({ headers: { "X-API-Key": key } });
const BY_GET = ALL.filter(({ method }) => method === "GET");

describe("An endpoint accepts a key:", () => {
  for (const endpoint of ALL) {
    const success = endpoint === ENDPOINTS.analyticsLog ? 202 : 200;
    const place = endpoint.method === "POST" ? "body" : "query";

    test(`${endpoint.title} reads it from the ${place}`, async () => {
      const { apiKey } = await service.issue();
      expect(await call(service, endpoint, apiKey)).toMatchObject({ status: success });
    });

    for (const absent of endpoint.method === "POST" ? [undefined, null, ""] : [undefined, ""]) {
      const what = JSON.stringify(absent);
      test(`${endpoint.title} reads it from X-API-Key where the ${place} has ${what}`, async () => {
        const { apiKey } = await service.issue();
        expect(await call(service, endpoint, absent, withHeader(apiKey))).toMatchObject({ status: success });
      });
    }

    test(`${endpoint.title} reads it from both places if they agree`, async () => {
      const { apiKey } = await service.issue();
      expect(await call(service, endpoint, apiKey, withHeader(apiKey))).toMatchObject({ status: success });
    });

    test(`${endpoint.title} reads it from the ${place} where X-API-Key is empty`, async () => {
      const { apiKey } = await service.issue();
      expect(await call(service, endpoint, apiKey, withHeader(""))).toMatchObject({ status: success });
    });
  }
});

test("A key in Authorization is refused as MISSING_KEY, with a hint at X-API-Key", async () => {
  const { apiKey } = await service.issue();
  const answer = await service.get("/v1/models/list", { Authorization: `Bearer ${apiKey}` });
  expectRefusal(answer, 400, "MISSING_KEY");
  expect(answer.body.error).toContain("X-API-Key");
});

describe("Two different keys in one request are refused:", () => {
  for (const endpoint of ALL) {
    test(`${endpoint.title} refuses them though both are active`, async () => {
      const [one, other] = [await service.issue(), await service.issue()];
      const answer = await call(service, endpoint, one.apiKey, withHeader(other.apiKey));
      expectRefusal(answer, 400, "INVALID_REQUEST");
      for (const { apiKey } of [one, other]) {
        expect(await call(service, ENDPOINTS.validate, apiKey)).toMatchObject({ status: 200 });
      }
    });
  }
  for (const { title, path } of BY_GET) {
    test(`${title} refuses them in a repeated parameter`, async () => {
      const { apiKey } = await service.issue();
      const answer = await service.get(`${path}?api_key=${apiKey}&api_key=${UNKNOWN_KEY}`);
      expectRefusal(answer, 400, "INVALID_REQUEST");
    });
  }
});

describe("A key in the query of a request with a body is ignored:", () => {
  for (const endpoint of WITH_BODY) {
    test(`${endpoint.title} answers MISSING_KEY`, async () => {
      const { apiKey } = await service.issue();
      const answer = await service.post(`${endpoint.path}?api_key=${apiKey}`, endpoint.fields);
      expectRefusal(answer, 400, "MISSING_KEY");
    });

    test(`${endpoint.title} uses the key in the body`, async () => {
      const { apiKey } = await service.issue();
      const answer = await service.post(`${endpoint.path}?api_key=${UNKNOWN_KEY}`, {
        api_key: apiKey,
        ...endpoint.fields,
      });
      expect(answer.status).toBeLessThan(300);
    });
  }
});

describe("MISSING_KEY:", () => {
  for (const endpoint of WITH_BODY) {
    for (const key of [undefined, null, ""]) {
      test(`${endpoint.title} answers it where api_key is ${JSON.stringify(key)}`, async () => {
        expectRefusal(await call(service, endpoint, key), 400, "MISSING_KEY");
      });
    }
    test(`${endpoint.title} answers it where the body is empty`, async () => {
      expectRefusal(await service.post(endpoint.path, ""), 400, "MISSING_KEY");
      expectRefusal(await service.send(endpoint.path, { method: "POST" }), 400, "MISSING_KEY");
    });
    test(`${endpoint.title} answers it where __proto__ holds the key`, async () => {
      const { apiKey } = await service.issue();
      const body = `{"__proto__": {"api_key": "${apiKey}"}}`;
      expectRefusal(await service.post(endpoint.path, body), 400, "MISSING_KEY");
    });
  }
  for (const { title, path } of BY_GET) {
    for (const query of ["", "?", "?api_key", "?api_key=", "?API_KEY=x", "?api_key=&api_key="]) {
      test(`${title}${query} answers it`, async () => {
        expectRefusal(await service.get(path + query), 400, "MISSING_KEY");
      });
    }
  }
});

const HEX = "0123456789abcdef".repeat(3);
const MALFORMED = [
  HEX,
  `svc_live_${HEX.toUpperCase()}`,
  `SVC_live_${HEX}`,
  `svc_LIVE_${HEX}`,
  `svc_prod_${HEX}`,
  `abc_live_${HEX}`,
  `svc_live_${HEX.slice(1)}`,
  `svc_live_${HEX}0`,
  `svc_live_${HEX.slice(1)}g`,
  ` svc_live_${HEX}`,
  `svc_live_${HEX} `,
  `svc_live_${HEX}\n`,
  `\nsvc_live_${HEX}`,
  `svc_live_${HEX}\r\nsvc_live_${HEX}`,
  `svc_live_${HEX}\u0000`,
  `svc_live_${HEX}\uFFFD`,
  `svc_live_${HEX.slice(1)}٣`,
  " ",
  "' or 1=1 --",
];

describe("INVALID_FORMAT:", () => {
  for (const endpoint of ALL) {
    test(`${endpoint.title} answers it unless a key is the prefix and 48 lowercase hex digits`, async () => {
      for (const key of MALFORMED) expectRefusal(await call(service, endpoint, key), 400, "INVALID_FORMAT");
    });
    test(`${endpoint.title} answers it for a malformed key in the header`, async () => {
      for (const key of [HEX, `svc_live_${HEX.toUpperCase()}`, `svc_live_${HEX}, svc_live_${HEX}`]) {
        expectRefusal(await call(service, endpoint, undefined, withHeader(key)), 400, "INVALID_FORMAT");
      }
    });
  }
  for (const endpoint of WITH_BODY) {
    test(`${endpoint.title} answers it where api_key is not a string`, async () => {
      for (const key of [0, 5, true, false, [], [UNKNOWN_KEY], {}, { api_key: UNKNOWN_KEY }, 1e308]) {
        expectRefusal(await call(service, endpoint, key), 400, "INVALID_FORMAT");
        expectRefusal(await call(service, endpoint, key, withHeader(UNKNOWN_KEY)), 400, "INVALID_FORMAT");
      }
    });
  }
});

describe("The state of a key decides:", () => {
  for (const endpoint of ALL.filter((each) => each !== ENDPOINTS.revoke)) {
    for (const [state, code] of [
      ["suspended", "INVALID_KEY"],
      ["revoked", "INVALID_KEY"],
      ["expired", "KEY_EXPIRED"],
    ] as const) {
      test(`${endpoint.title} refuses a ${state} key`, async () => {
        const { apiKey } = await issueIn(service, state);
        expectRefusal(await call(service, endpoint, apiKey), 401, code);
      });
    }
    test(`${endpoint.title} refuses a key that was never issued`, async () => {
      expectRefusal(await call(service, endpoint, UNKNOWN_KEY), 401, "INVALID_KEY");
    });
  }

  // On Node the service is a process of its own, which cannot read this test's clock.
  test.skipIf(ON_NODE)("a key expires at the very instant at which its license expires", async () => {
    let now = new Date("2026-11-20T10:00:00.000Z");
    const clock = { ...createTestClock(), now: () => now, nowMs: () => now.getTime() };
    await using still = await startTestService({ clock });
    const { apiKey } = await still.issue({ expiresAt: new Date("2026-11-20T10:00:01.000Z") });
    now = new Date("2026-11-20T10:00:00.999Z");
    expect(await call(still, ENDPOINTS.validate, apiKey)).toMatchObject({ status: 200 });
    now = new Date("2026-11-20T10:00:01.000Z");
    expectRefusal(await call(still, ENDPOINTS.validate, apiKey), 401, "KEY_EXPIRED");
  });

  test("an expired key works again after its license is renewed", async () => {
    const key = await issueIn(service, "expired");
    const validate = () => call(service, ENDPOINTS.validate, key.apiKey);
    expectRefusal(await validate(), 401, "KEY_EXPIRED");
    await service.database.query(
      (sql) => sql`
        update licenses set expires_at = expires_at + interval '1 year' where id = ${key.licenseUuid}::uuid`,
    );
    await service.service.directory.beat();
    expect(await validate()).toMatchObject({ status: 200 });
  });
});

/** Where a key may stand, what it must look like, and what its state means, on every endpoint. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { expectRefusal } from "../support/answers.ts";
import { createTestClock } from "../support/clock.ts";
import { ALL, call, ENDPOINTS, WITH_BODY } from "../support/endpoints.ts";
import { setToken } from "../support/installer.ts";
import { issueIn, UNKNOWN_KEY } from "../support/keys.ts";
import { ON_NODE, startTestService, type TestService } from "../support/service.ts";

let service: TestService;

beforeAll(async () => {
  service = await startTestService();
  await setToken(service);
});
afterAll(() => service.close());

const withHeader = (key: string) => ({ headers: { "X-API-Key": key } });
const BY_GET = ALL.filter(({ method }) => method === "GET");

describe("A key is taken", () => {
  for (const endpoint of ALL) {
    const success = endpoint === ENDPOINTS.analyticsLog ? 202 : 200;
    const place = endpoint.method === "POST" ? "body" : "query";

    test(`by ${endpoint.title} from its ${place}`, async () => {
      const { apiKey } = await service.issue();
      expect(await call(service, endpoint, apiKey)).toMatchObject({ status: success });
    });

    for (const absent of endpoint.method === "POST" ? [undefined, null, ""] : [undefined, ""]) {
      const what = JSON.stringify(absent);
      test(`by ${endpoint.title} from X-API-Key beside ${what} in its ${place}`, async () => {
        const { apiKey } = await service.issue();
        expect(await call(service, endpoint, absent, withHeader(apiKey))).toMatchObject({ status: success });
      });
    }

    test(`by ${endpoint.title} from both places where they agree`, async () => {
      const { apiKey } = await service.issue();
      expect(await call(service, endpoint, apiKey, withHeader(apiKey))).toMatchObject({ status: success });
    });

    test(`by ${endpoint.title} from its ${place} beside an empty X-API-Key`, async () => {
      const { apiKey } = await service.issue();
      expect(await call(service, endpoint, apiKey, withHeader(""))).toMatchObject({ status: success });
    });
  }
});

test("A key is asked for by the header's name, also where a client sends Authorization", async () => {
  const { apiKey } = await service.issue();
  const answer = await service.get("/v1/models/list", { Authorization: `Bearer ${apiKey}` });
  expectRefusal(answer, 400, "MISSING_KEY");
  expect(answer.body.error).toContain("X-API-Key");
});

describe("Different keys in two places are refused", () => {
  for (const endpoint of ALL) {
    test(`by ${endpoint.title}, though both are good`, async () => {
      const [one, other] = [await service.issue(), await service.issue()];
      const answer = await call(service, endpoint, one.apiKey, withHeader(other.apiKey));
      expectRefusal(answer, 400, "INVALID_REQUEST");
      for (const { apiKey } of [one, other]) {
        expect(await call(service, ENDPOINTS.validate, apiKey)).toMatchObject({ status: 200 });
      }
    });
  }
  for (const { title, path } of BY_GET) {
    test(`by ${title} in a repeated parameter`, async () => {
      const { apiKey } = await service.issue();
      const answer = await service.get(`${path}?api_key=${apiKey}&api_key=${UNKNOWN_KEY}`);
      expectRefusal(answer, 400, "INVALID_REQUEST");
    });
  }
});

describe("A query's key does not count", () => {
  for (const endpoint of WITH_BODY) {
    test(`for ${endpoint.title}`, async () => {
      const { apiKey } = await service.issue();
      const answer = await service.post(`${endpoint.path}?api_key=${apiKey}`, endpoint.fields);
      expectRefusal(answer, 400, "MISSING_KEY");
    });

    test(`for ${endpoint.title} beside another one in the body`, async () => {
      const { apiKey } = await service.issue();
      const answer = await service.post(`${endpoint.path}?api_key=${UNKNOWN_KEY}`, {
        api_key: apiKey,
        ...endpoint.fields,
      });
      expect(answer.status).toBeLessThan(300);
    });
  }
});

describe("A key is missing", () => {
  for (const endpoint of WITH_BODY) {
    for (const key of [undefined, null, ""]) {
      test(`to ${endpoint.title} where it is ${JSON.stringify(key)}`, async () => {
        expectRefusal(await call(service, endpoint, key), 400, "MISSING_KEY");
      });
    }
    test(`to ${endpoint.title} where the body is empty`, async () => {
      expectRefusal(await service.post(endpoint.path, ""), 400, "MISSING_KEY");
      expectRefusal(await service.send(endpoint.path, { method: "POST" }), 400, "MISSING_KEY");
    });
    test(`to ${endpoint.title} where it is inherited`, async () => {
      const { apiKey } = await service.issue();
      const body = `{"__proto__": {"api_key": "${apiKey}"}}`;
      expectRefusal(await service.post(endpoint.path, body), 400, "MISSING_KEY");
    });
  }
  for (const { title, path } of BY_GET) {
    for (const query of ["", "?", "?api_key", "?api_key=", "?API_KEY=x", "?api_key=&api_key="]) {
      test(`to ${title}${query}`, async () => {
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

describe("A key is malformed", () => {
  for (const endpoint of ALL) {
    test(`to ${endpoint.title} unless it is the prefix and 48 lowercase hexadecimal digits`, async () => {
      for (const key of MALFORMED) expectRefusal(await call(service, endpoint, key), 400, "INVALID_FORMAT");
    });
    test(`to ${endpoint.title} in the header too`, async () => {
      for (const key of [HEX, `svc_live_${HEX.toUpperCase()}`, `svc_live_${HEX}, svc_live_${HEX}`]) {
        expectRefusal(await call(service, endpoint, undefined, withHeader(key)), 400, "INVALID_FORMAT");
      }
    });
  }
  for (const endpoint of WITH_BODY) {
    test(`to ${endpoint.title} where it is no text`, async () => {
      for (const key of [0, 5, true, false, [], [UNKNOWN_KEY], {}, { api_key: UNKNOWN_KEY }, 1e308]) {
        expectRefusal(await call(service, endpoint, key), 400, "INVALID_FORMAT");
        expectRefusal(await call(service, endpoint, key, withHeader(UNKNOWN_KEY)), 400, "INVALID_FORMAT");
      }
    });
  }
});

describe("A key's state decides", () => {
  for (const endpoint of ALL.filter((each) => each !== ENDPOINTS.revoke)) {
    for (const [state, code] of [
      ["suspended", "INVALID_KEY"],
      ["revoked", "INVALID_KEY"],
      ["expired", "KEY_EXPIRED"],
    ] as const) {
      test(`that ${endpoint.title} refuses one that is ${state}`, async () => {
        const { apiKey } = await issueIn(service, state);
        expectRefusal(await call(service, endpoint, apiKey), 401, code);
      });
    }
    test(`that ${endpoint.title} refuses one that was never issued`, async () => {
      expectRefusal(await call(service, endpoint, UNKNOWN_KEY), 401, "INVALID_KEY");
    });
  }

  // A clock that stands still is for the process that reads it.
  test.skipIf(ON_NODE)("from the instant on at which its license expires", async () => {
    let now = new Date("2026-11-20T10:00:00.000Z");
    const clock = { ...createTestClock(), now: () => now, nowMs: () => now.getTime() };
    const still = await startTestService({ clock });
    try {
      const { apiKey } = await still.issue({ expiresAt: new Date("2026-11-20T10:00:01.000Z") });
      now = new Date("2026-11-20T10:00:00.999Z");
      expect(await call(still, ENDPOINTS.validate, apiKey)).toMatchObject({ status: 200 });
      now = new Date("2026-11-20T10:00:01.000Z");
      expectRefusal(await call(still, ENDPOINTS.validate, apiKey), 401, "KEY_EXPIRED");
    } finally {
      await still.close();
    }
  });

  test("until its license is renewed", async () => {
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

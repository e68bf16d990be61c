/** A license whose term begins with its first use: which requests start it, and which do not. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Sql } from "../../src/database/mod.ts";
import { type IssuedKey, rotateKey } from "../../src/licensing/keys/mod.ts";
import { createLicenseChanges } from "../../src/licensing/mod.ts";
import { expectRefusal } from "../support/answers.ts";
import { countWaiting } from "../support/count_waiting.ts";
import { whileDatabaseFails } from "../support/failing_database.ts";
import { addHostedModel, linkTo, startHostingService, testBytes } from "../support/hosted.ts";
import { inTransaction, overtake } from "../support/in_transaction.ts";
import { setToken } from "../support/installer.ts";
import { ACTOR, orThrow } from "../support/issue.ts";
import { bringInto, issueBeside, updateLicense, uuidOf } from "../support/keys.ts";
import { placeMachine, setPlaces } from "../support/machines.ts";
import {
  createStandingClock,
  type IssueOptions,
  type JsonResponse,
  limitsOf,
  ON_NODE,
  startTestService,
  type TestService,
} from "../support/service.ts";
import { giveTerm, readTerm, whileStartsFail } from "../support/terms.ts";
import { until } from "../support/until.ts";
import { useForAll, useHostingService, useTestService } from "../support/use.ts";

const DAY_MS = 86_400_000;
const DAYS = 30;
const FINGERPRINT = "workstation-7";
const BYTES = testBytes(5_000);

const clock = createStandingClock();
const offlineDays = { free: 0, research: 7, commercial: 14, enterprise: 0 };
const service = useHostingService({ clock, config: { offlineDays } });
/** A second service on the same database, like another process of one installation. */
const other = useForAll(() => startTestService({ clock, on: service.testDatabase, config: { offlineDays } }));
const narrow = useTestService({ clock, config: { limits: limitsOf(3) } });

beforeAll(async () => {
  await setToken(service);
  await addHostedModel(service, { name: "hosted" }, BYTES);
  await addHostedModel(service, { name: "dear", requiresLicense: "enterprise" }, testBytes(100));
});

/** The timestamp of an answer. */
const toText = (at: Date) => at.toISOString().replace(".000", "");
const inDays = (days: number) => new Date(Math.floor(clock.nowMs() / 1_000) * 1_000 + days * DAY_MS);

/** Lets a service ask its database again, if tests of another service have moved the clock. */
async function untilTrusted(at: TestService): Promise<void> {
  if (at !== service) await at.service.directory.beat();
}

const LATEST_START = inDays(100);
const LATEST_END = inDays(100 + DAYS);

/** Issues a key whose license starts at the latest in 100 days. */
async function issueUnstarted(options: IssueOptions = {}, at: TestService = service): Promise<IssuedKey> {
  const key = await at.issue(options);
  await giveTerm(at.database, key, { days: DAYS, latestStart: LATEST_START });
  await untilTrusted(at);
  return key;
}

/** Expects that `use` starts the term of the key's license, once and now, and returns its end. */
async function expectStart<Used>(key: IssuedKey, use: () => Promise<Used>, at: TestService = service) {
  const from = inDays(0);
  const used = await use();
  const { startedAt, expiresAt, starts } = await readTerm(at.database, key);
  expect(starts).toBe(1);
  expect(startedAt?.getTime()).toBeWithin(from.getTime(), inDays(0).getTime() + 1);
  expect(expiresAt.getTime()).toBe((startedAt?.getTime() ?? 0) + DAYS * DAY_MS);
  return { used, end: toText(expiresAt) };
}

async function expectNoStart(key: IssuedKey, at: TestService = service): Promise<void> {
  expect(await readTerm(at.database, key)).toMatchObject({ startedAt: null, starts: 0 });
}

type Use = (key: IssuedKey) => Promise<{ readonly status: number }>;

const post =
  (path: string, fields: object = {}): Use =>
  ({ apiKey }) =>
    service.post(path, { api_key: apiKey, ...fields });
const send =
  (method: string, path: string, headers: Record<string, string> = {}): Use =>
  ({ apiKey }) =>
    fetch(service.url + path, { method, headers: { "x-api-key": apiKey, ...headers } });

const DOWNLOAD = "/v1/models/download/{name}/{version}";
const VERSION = "/v1/models/download/hosted/1.0.0";
const FILE = `${VERSION}/hosted-1.0.0`;

/** A right request for each operation of the OpenAPI document that takes a key. */
const USES: Readonly<Record<string, Use>> = {
  "post /v1/auth/validate": post("/v1/auth/validate"),
  "post /v1/auth/refresh": post("/v1/auth/refresh"),
  "post /v1/auth/license": post("/v1/auth/license"),
  "get /v1/installer/repo-token": send("GET", "/v1/installer/repo-token"),
  "post /v1/installer/repo-token": post("/v1/installer/repo-token"),
  "get /v1/models/list": send("GET", "/v1/models/list"),
  [`get ${DOWNLOAD}`]: send("GET", VERSION),
  [`head ${DOWNLOAD}`]: send("HEAD", VERSION),
  [`get ${DOWNLOAD}/{file}`]: send("GET", FILE),
  [`head ${DOWNLOAD}/{file}`]: send("HEAD", FILE),
  "post /v1/analytics/log": post("/v1/analytics/log", { event_type: "inference" }),
  "post /v1/analytics/batch": post("/v1/analytics/batch", { events: [{ event_type: "inference" }] }),
  "post /v1/machines/activate": post("/v1/machines/activate", { fingerprint: FINGERPRINT }),
  "post /v1/machines/heartbeat": post("/v1/machines/heartbeat", { fingerprint: FINGERPRINT }),
  "post /v1/machines/release": post("/v1/machines/release", { fingerprint: FINGERPRINT }),
  "post /v1/machines/list": post("/v1/machines/list"),
};
/** Takes a key, and is no use of the license. */
const REVOKE = "post /v1/auth/revoke";
const WITHOUT_KEY = ["/.well-known/jwks.json", "/api/health", "/openapi.json"];

test("Every operation that takes a key is tried here", async () => {
  const { body } = await service.get("/openapi.json");
  const operations = Object.entries<object>(body.paths)
    .filter(([path]) => !WITHOUT_KEY.includes(path))
    .flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method} ${path}`));
  expect(operations.toSorted()).toEqual([...Object.keys(USES), REVOKE].toSorted());
});

describe("The term of a license that was not used yet", () => {
  for (const [operation, use] of Object.entries(USES)) {
    test(`starts with the first ${operation}, and only with the first`, async () => {
      const key = await issueUnstarted();
      const { used, end } = await expectStart(key, () => use(key));
      expect(used.status).toBeWithin(200, 203);
      await service.advance(60_000);
      expect((await use(key)).status).toBeWithin(200, 203);
      expect(await readTerm(service.database, key)).toMatchObject({ expiresAt: new Date(end), starts: 1 });
      expect((await post("/v1/auth/validate")(key)) as JsonResponse).toMatchObject({
        body: { expires_at: end },
      });
    });
  }

  for (const path of ["/v1/auth/validate", "/v1/auth/refresh"]) {
    test(`has its end in the first answer of ${path}, also for a key that was looked up before`, async () => {
      const key = await issueUnstarted({ monthlyLimit: 1 });
      // Refused, so that nothing starts.
      expectRefusal(
        await service.post("/v1/auth/license", { api_key: key.apiKey, nonce: "" }),
        400,
        "INVALID_REQUEST",
      );
      const { used, end } = await expectStart(key, () => service.post(path, { api_key: key.apiKey }));
      expect(used).toMatchObject({ status: 200, body: { expires_at: end } });
      expect(end).not.toBe(toText(LATEST_END));
    });
  }

  test("starts with a test key, and with a link", async () => {
    const key = await issueUnstarted({ mode: "test" });
    await expectStart(key, () => post("/v1/auth/validate")(key));
    const linked = await service.issue();
    const link = await linkTo(service, linked.apiKey, "hosted");
    await giveTerm(service.database, linked, { days: DAYS, latestStart: LATEST_START });
    await service.service.directory.beat();
    const { used } = await expectStart(linked, () => fetch(link));
    expect(Buffer.from(await used.arrayBuffer())).toEqual(Buffer.from(BYTES));
  });

  test("has begun for all keys of the license, also after a rotation", async () => {
    const old = await issueUnstarted();
    const beside = await issueBeside(service, old);
    const by = { actor: ACTOR, now: clock.now(), brand: service.config.brand };
    const oldKey = { uuid: uuidOf(old), mode: "live", overlapMs: DAY_MS } as const;
    const rotation = rotateKey(createLicenseChanges(service.database), oldKey, by);
    const rotated = orThrow(await rotation);
    const { end } = await expectStart(old, () => service.post("/v1/auth/validate", { api_key: old.apiKey }));
    for (const { apiKey } of [beside, rotated])
      expect((await service.post("/v1/auth/validate", { api_key: apiKey })).body.expires_at).toBe(end);
    expect(await readTerm(service.database, old)).toMatchObject({ starts: 1 });
  });

  test("is noted in the audit log with the client, the request, and the ends before and after", async () => {
    const key = await issueUnstarted();
    const { used, end } = await expectStart(key, () =>
      service.post("/v1/auth/validate", { api_key: key.apiKey }),
    );
    const [row] = await service.database.query(
      (sql) => sql`
        select actor, door, request, address, account_id is not null as "hasAccount", key_id = ${uuidOf(key)}::uuid as "isKey",
               (before->>'expires_at')::timestamptz = ${LATEST_END}::timestamptz as "isBefore",
               before->'started_at' as "startedBefore", (after->>'expires_at')::timestamptz as end,
               (after->>'started_at')::timestamptz as start
          from audit where action = 'license.start' and license_id = ${key.licenseUuid}::uuid`,
    );
    const { startedAt } = await readTerm(service.database, key);
    expect(row).toEqual({
      actor: "http:127.0.0.1",
      door: "client",
      request: used.headers.get("x-request-id"),
      address: "127.0.0.1",
      hasAccount: true,
      isKey: true,
      isBefore: true,
      startedBefore: null,
      end: new Date(end),
      start: startedAt,
    });
  });

  test("counts from the latest start if that has passed, and is over after its days", async () => {
    const latestStart = inDays(-10);
    const key = await service.issue();
    await giveTerm(service.database, key, { days: DAYS, latestStart });
    const { body } = await service.post("/v1/auth/validate", { api_key: key.apiKey });
    expect(body.expires_at).toBe(toText(new Date(latestStart.getTime() + DAYS * DAY_MS)));
    expect(await readTerm(service.database, key)).toMatchObject({ startedAt: latestStart, starts: 1 });
    const late = await service.issue();
    await giveTerm(service.database, late, { days: DAYS, latestStart: inDays(-DAYS) });
    for (const [operation, use] of Object.entries(USES)) {
      if (operation.startsWith("head")) continue;
      expect((await use(late)).status).toBe(401);
    }
    await expectNoStart(late);
  });
});

/** A request that is refused: how its license and its key are made, and what is sent. */
interface Refused {
  readonly options?: IssueOptions;
  readonly prepare?: (key: IssuedKey) => Promise<unknown>;
  readonly use: Use;
  readonly status: number;
}

const setColumns = (columns: Parameters<typeof updateLicense>[2]) => (key: IssuedKey) =>
  updateLicense(service, key, columns);
const withPlaces = ({ licenseUuid }: IssuedKey) =>
  setPlaces(service.database, licenseUuid, { maxMachines: 1 });

const REFUSED: Readonly<Record<string, Refused>> = {
  "of the syntax": {
    use: ({ apiKey }) => service.post("/v1/auth/validate", "{", { "x-api-key": apiKey }),
    status: 400,
  },
  "of a suspended key": {
    prepare: (key) => bringInto(service, key, "suspended"),
    use: post("/v1/auth/validate"),
    status: 401,
  },
  "of a revoked key": {
    prepare: (key) => bringInto(service, key, "revoked"),
    use: post("/v1/auth/refresh"),
    status: 401,
  },
  "of a wrong field of an event": { use: post("/v1/analytics/log", { event_type: 7 }), status: 400 },
  "of a wrong field of an activation": {
    use: post("/v1/machines/activate", { fingerprint: "x" }),
    status: 400,
  },
  "of a wrong parameter of the list": { use: send("GET", "/v1/models/list?type=a&type=b"), status: 400 },
  "of the quota at validate": { options: { monthlyLimit: 0 }, use: post("/v1/auth/validate"), status: 429 },
  "of the quota at an event": {
    options: { monthlyLimit: 0 },
    use: post("/v1/analytics/log", { event_type: "inference" }),
    status: 429,
  },
  "of a machine without a place": {
    prepare: async (key) => {
      await withPlaces(key);
      await placeMachine(service.database, { ...key, keyUuid: uuidOf(key) }, "other");
    },
    use: post("/v1/machines/activate", { fingerprint: FINGERPRINT }),
    status: 409,
  },
  "of the heartbeat of a machine that is not active": {
    prepare: withPlaces,
    use: post("/v1/machines/heartbeat", { fingerprint: FINGERPRINT }),
    status: 404,
  },
  "of the release of a machine that is not active": {
    prepare: withPlaces,
    use: post("/v1/machines/release", { fingerprint: FINGERPRINT }),
    status: 404,
  },
  "of a signed license for a machine that is not active": {
    prepare: withPlaces,
    use: post("/v1/auth/license", { fingerprint: FINGERPRINT }),
    status: 404,
  },
  "of a signed license without a machine": {
    prepare: withPlaces,
    use: post("/v1/auth/license"),
    status: 400,
  },
  "of a signed license that the tier does not allow": {
    options: { tier: "free" },
    use: post("/v1/auth/license"),
    status: 403,
  },
  "of a signed license that the license forbids": {
    prepare: setColumns({ max_offline_days: 0 }),
    use: post("/v1/auth/license"),
    status: 403,
  },
  "of a signed license for too many days": { use: post("/v1/auth/license", { days: 8 }), status: 400 },
  "of an unknown model": { use: send("GET", "/v1/models/download/nothing/1.0.0"), status: 404 },
  "of a model of a higher tier": { use: send("GET", "/v1/models/download/dear/1.0.0"), status: 403 },
  "of a range after the end of a file": { use: send("GET", VERSION, { range: "bytes=9999-" }), status: 416 },
  "of a condition that a file does not meet": {
    use: send("GET", VERSION, { "if-match": '"x"' }),
    status: 412,
  },
};

describe("A refusal starts no term:", () => {
  for (const [what, { options, prepare, use, status }] of Object.entries(REFUSED)) {
    test(what, async () => {
      const key = await issueUnstarted(options);
      await prepare?.(key);
      await service.service.directory.beat();
      for (let times = 0; times < 2; times++) expect((await use(key)).status).toBe(status);
      await expectNoStart(key);
    });
  }

  test("of a repository token that is not set", async () => {
    const key = await issueUnstarted({}, narrow);
    const { apiKey } = key;
    expectRefusal(await narrow.post("/v1/installer/repo-token", { api_key: apiKey }), 503, "NOT_CONFIGURED");
    await expectNoStart(key, narrow);
  });

  test("of a revocation, accepted or refused", async () => {
    const key = await issueUnstarted();
    const { apiKey } = key;
    expectRefusal(
      await service.post("/v1/auth/revoke", { api_key: apiKey, reason: 7 }),
      400,
      "INVALID_REQUEST",
    );
    expect((await service.post("/v1/auth/revoke", { api_key: apiKey })).status).toBe(200);
    await expectNoStart(key);
  });

  test("of the rate limit, which counts the requests before and after the start", async () => {
    const key = await issueUnstarted({ monthlyLimit: 0 }, narrow);
    const validate = () => narrow.post("/v1/auth/validate", { api_key: key.apiKey });
    for (let times = 0; times < 3; times++) expectRefusal(await validate(), 429, "QUOTA_EXCEEDED");
    await updateLicense(narrow, key, { monthly_limit: 5 });
    await narrow.service.directory.beat();
    for (let times = 0; times < 2; times++) expectRefusal(await validate(), 429, "RATE_LIMIT_EXCEEDED");
    await expectNoStart(key, narrow);
    const counted = await issueUnstarted({}, narrow);
    const remaining: unknown[] = [];
    for (let times = 0; times < 4; times++) {
      const { status, headers } = await narrow.post("/v1/auth/validate", { api_key: counted.apiKey });
      remaining.push([status, headers.get("x-ratelimit-remaining")]);
    }
    expect(remaining).toEqual([
      [200, "2"],
      [200, "1"],
      [200, "0"],
      [429, "0"],
    ]);
  });

  for (const [operation, use] of Object.entries(USES)) {
    test.skipIf(ON_NODE)(`of the database, at ${operation}`, async () => {
      const key = await issueUnstarted();
      // Looked up, so that the key is in memory.
      await service.post("/v1/auth/license", { api_key: key.apiKey, nonce: "" });
      await whileDatabaseFails(service, async () => expect((await use(key)).status).toBe(503));
      await expectNoStart(key);
      await whileStartsFail(service.database, async () => {
        for (let times = 0; times < 2; times++) expect((await use(key)).status).toBe(503);
      });
      await expectNoStart(key);
      await expectStart(key, () => use(key));
    });
  }

  test("of the database: the client does not pay for it", async () => {
    const key = await issueUnstarted({}, narrow);
    const validate = () => narrow.post("/v1/auth/validate", { api_key: key.apiKey });
    await whileStartsFail(narrow.database, async () => {
      for (let times = 0; times < 5; times++) {
        const refused = await validate();
        expectRefusal(refused, 503, "SERVICE_UNAVAILABLE");
        expect(refused.headers.get("x-ratelimit-remaining")).toBe("3");
      }
    });
    expect((await expectStart(key, validate, narrow)).used.headers.get("x-ratelimit-remaining")).toBe("2");
  });
});

describe.skipIf(ON_NODE)("A first use whose term cannot start", () => {
  test("closes the file that was opened for its answer", async () => {
    let closed = 0;
    const fileBody = () => new ReadableStream<Uint8Array>({ cancel: () => void closed++ });
    await using hosting = await startHostingService({ platform: { fileBody } });
    await addHostedModel(hosting, { name: "hosted" }, BYTES);
    const key = await issueUnstarted({}, hosting);
    await whileStartsFail(hosting.database, async () => {
      const answer = await hosting.get(VERSION, { "x-api-key": key.apiKey });
      expectRefusal(answer, 503, "SERVICE_UNAVAILABLE");
    });
    expect(closed).toBe(1);
  });

  test("starts after a statement that took two seconds", async () => {
    const key = await issueUnstarted();
    await withPlaces(key);
    const slow = await inTransaction(service.address, async (sql) => {
      await sql`select from licenses where id = ${key.licenseUuid}::uuid for no key update`;
      const activated = service.post("/v1/machines/activate", {
        api_key: key.apiKey,
        fingerprint: FINGERPRINT,
      });
      await until(async () => (await countWaiting(service.database)) > 0);
      clock.advance(2_000);
      return { activated };
    });
    expect((await slow.activated).status).toBe(200);
    expect(await readTerm(service.database, key)).toMatchObject({ starts: 1 });
    await service.service.directory.beat();
  });

  test("is refused if so much time has passed that its answer would be late", async () => {
    const key = await issueUnstarted();
    await withPlaces(key);
    const activate = () =>
      service.post("/v1/machines/activate", { api_key: key.apiKey, fingerprint: FINGERPRINT });
    const late = await inTransaction(service.address, async (sql) => {
      await sql`select from licenses where id = ${key.licenseUuid}::uuid for no key update`;
      const activated = activate();
      await until(async () => (await countWaiting(service.database)) > 0);
      clock.advance(3_000);
      return { activated };
    });
    const refused = await late.activated;
    expectRefusal(refused, 503, "SERVICE_UNAVAILABLE");
    expect(refused.body.error).toContain("what was asked for may have been done; try again");
    await expectNoStart(key);
    await service.service.directory.beat();
    await expectStart(key, activate);
  });
});

describe("Several first uses at once", () => {
  beforeAll(() => untilTrusted(other));

  test("over two processes start the term once, and all answers have the same end", async () => {
    for (let round = 0; round < 5; round++) {
      const key = await issueUnstarted();
      const keys = [key, await issueBeside(service, key)];
      const { used, end } = await expectStart(key, () =>
        Promise.all(
          Array.from({ length: 50 }, (_, index) => {
            const at = index % 2 === 0 ? service : other;
            const path = index % 3 === 0 ? "refresh" : "validate";
            return at.post(`/v1/auth/${path}`, { api_key: keys[index % 4 < 2 ? 0 : 1]?.apiKey });
          }),
        ),
      );
      for (const answer of used) expect(answer).toMatchObject({ status: 200, body: { expires_at: end } });
    }
  });

  test("by validate and for signed licenses have one end", async () => {
    const key = await issueUnstarted();
    const { used, end } = await expectStart(key, () =>
      Promise.all(
        Array.from({ length: 40 }, (_, index) => {
          const path = index % 4 < 2 ? "license" : "validate";
          return (index % 2 === 0 ? service : other).post(`/v1/auth/${path}`, { api_key: key.apiKey });
        }),
      ),
    );
    for (const answer of used) {
      expect(answer.status).toBe(200);
      const isSigned = answer.body.license !== undefined;
      expect(isSigned ? readClaims(answer).license_expires_at : answer.body.expires_at).toBe(end);
    }
  });

  for (const path of ["/v1/auth/validate", "/v1/auth/license"]) {
    test(`let ${path} read the moment of another process that is just before it`, async () => {
      const key = await issueUnstarted();
      const start = inDays(-3);
      const end = new Date(start.getTime() + DAYS * DAY_MS);
      const answer = await overtake(
        service.testDatabase,
        (sql) => sql`
          update licenses set started_at = ${start}::timestamptz, expires_at = ${end}::timestamptz
           where id = ${key.licenseUuid}::uuid`,
        () => service.post(path, { api_key: key.apiKey }),
      );
      expect(answer.status).toBe(200);
      expect(await readTerm(service.database, key)).toEqual({ startedAt: start, expiresAt: end, starts: 0 });
      const timestamp = toText(end);
      if (path === "/v1/auth/validate") expect(answer.body.expires_at).toBe(timestamp);
      else expect(readClaims(answer)).toMatchObject({ license_expires_at: timestamp });
      const signed = await service.database.query(
        (sql) => sql`select count from signed_licenses where key_id = ${uuidOf(key)}::uuid`,
      );
      expect(signed).toEqual(path === "/v1/auth/license" ? [{ count: 1 }] : []);
    });
  }

  for (const [what, code, change] of [
    [
      "is suspended",
      "INVALID_KEY",
      (sql: Sql, key: IssuedKey) => sql`
        update keys set state = 'suspended'
         where id = (select id from keys where id = ${uuidOf(key)}::uuid for update)`,
    ],
    [
      "expires",
      "KEY_EXPIRED",
      (sql: Sql, { licenseUuid }: IssuedKey) => sql`
        update licenses set latest_start = ${inDays(-30)}::timestamptz, expires_at = ${inDays(0)}::timestamptz
         where id = ${licenseUuid}::uuid`,
    ],
  ] as const) {
    test(`refuse a key that ${what} just before the start`, async () => {
      const key = await issueUnstarted();
      const answer = await overtake(
        service.testDatabase,
        (sql) => change(sql, key),
        () => service.post("/v1/auth/refresh", { api_key: key.apiKey }),
      );
      expectRefusal(answer, 401, code);
      await expectNoStart(key);
    });
  }
});

function readClaims({ body }: JsonResponse) {
  const [, claims = ""] = body.license.split(".");
  return JSON.parse(Buffer.from(claims, "base64url").toString());
}

describe.skipIf(ON_NODE)("The cache", () => {
  const stats = () => service.service.directory.stats();

  test("forgets all keys of a license that was started", async () => {
    const key = await issueUnstarted();
    const beside = await issueBeside(service, key);
    await service.service.directory.beat();
    // Refused, so that nothing starts.
    for (const { apiKey } of [key, beside])
      await service.post("/v1/auth/license", { api_key: apiKey, nonce: "" });
    const { keys } = stats();
    await expectStart(key, () => post("/v1/auth/validate")(key));
    expect(stats().keys).toBeLessThan(keys);
  });

  test("answers for a license that has started, without a statement", async () => {
    const key = await issueUnstarted();
    await expectStart(key, () => post("/v1/auth/validate")(key));
    // The pulse tells of the start once more.
    await service.service.directory.beat();
    await post("/v1/auth/validate")(key);
    const { hits } = stats();
    for (let times = 0; times < 20; times++) await post("/v1/auth/validate")(key);
    expect(stats().hits).toBe(hits + 20);
  });
});

import { expect, test } from "bun:test";
import { listAudit } from "../../src/audit/mod.ts";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import { expectRefusal } from "../support/answers.ts";
import { ALL, call, ENDPOINTS } from "../support/endpoints.ts";
import { issueIn, UNKNOWN_KEY, uuidOf } from "../support/keys.ts";
import { startTestService } from "../support/service.ts";
import { until } from "../support/until.ts";
import { useTestService } from "../support/use.ts";

const service = useTestService();

const revoke = (apiKey: string, reason?: unknown) =>
  service.post("/v1/auth/revoke", { api_key: apiKey, reason });
const validate = (apiKey: string, at = service) => call(at, ENDPOINTS.validate, apiKey);

async function auditOf(key: IssuedKey) {
  const rows = await listAudit(service.database, { keyUuid: uuidOf(key) });
  return rows.filter(({ action }) => action === "key.revoke");
}

test("POST /v1/auth/revoke says that the key is revoked", async () => {
  const key = await service.issue();
  const { status, body } = await revoke(key.apiKey);
  expect(status).toBe(200);
  expect(body).toEqual({ revoked: true, message: expect.stringMatching(/\S/) });
});

for (const endpoint of ALL) {
  test(`${endpoint.title} refuses a cached key as soon as its revocation is answered`, async () => {
    const key = await service.issue();
    expect(await validate(key.apiKey)).toMatchObject({ status: 200 });
    await revoke(key.apiKey);
    const answer = await call(service, endpoint, key.apiKey);
    if (endpoint === ENDPOINTS.revoke) expectRefusal(answer, 404, "KEY_NOT_FOUND");
    else expectRefusal(answer, 401, "INVALID_KEY");
  });
}

test("POST /v1/auth/revoke stops every request that begins after its answer, even under load", async () => {
  const key = await service.issue();
  let isRevoked = false;
  const late: number[] = [];
  const validateRepeatedly = async () => {
    for (let after = 0; after < 10; ) {
      const beganAfter = isRevoked;
      const { status } = await validate(key.apiKey);
      if (!beganAfter) continue;
      late.push(status);
      after++;
    }
  };
  const clients = Array.from({ length: 8 }, validateRepeatedly);
  const revoked = await revoke(key.apiKey);
  isRevoked = true;
  expect(revoked).toMatchObject({ status: 200 });
  await Promise.all(clients);
  expect(late.every((status) => status === 401)).toBe(true);
});

test("POST /v1/auth/revoke answers 200 to one of many requests at once, and writes one audit row", async () => {
  const key = await service.issue();
  const answers = await Promise.all(Array.from({ length: 10 }, () => revoke(key.apiKey)));
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  for (const answer of answers) if (answer.status !== 200) expectRefusal(answer, 404, "KEY_NOT_FOUND");
  expect(await auditOf(key)).toHaveLength(1);
});

test("POST /v1/auth/revoke answers KEY_NOT_FOUND to a key that was never issued", async () => {
  expectRefusal(await revoke(UNKNOWN_KEY), 404, "KEY_NOT_FOUND");
});

for (const state of ["expired", "suspended"] as const) {
  test(`POST /v1/auth/revoke revokes a key that is ${state}`, async () => {
    const key = await issueIn(service, state);
    expect(await revoke(key.apiKey)).toMatchObject({ status: 200, body: { revoked: true } });
    expectRefusal(await validate(key.apiKey), 401, "INVALID_KEY");
    expectRefusal(await revoke(key.apiKey), 404, "KEY_NOT_FOUND");
  });
}

test("POST /v1/auth/revoke does not revoke other keys of the account", async () => {
  const [key, other] = [
    await service.issue({ email: "two@example.org" }),
    await service.issue({ email: "two@example.org" }),
  ];
  await revoke(key.apiKey);
  expect(await validate(other.apiKey)).toMatchObject({ status: 200 });
});

test("POST /v1/auth/revoke writes actor, action, time and reason to the audit log", async () => {
  const key = await service.issue();
  await revoke(key.apiKey, "laptop stolen");
  expect(await auditOf(key)).toEqual([
    {
      id: expect.any(Number),
      position: expect.any(String),
      at: expect.any(Date),
      actor: "http:127.0.0.1",
      door: "client",
      action: "key.revoke",
      userId: key.userId,
      licenseId: expect.stringMatching(/^lic_/),
      keyId: key.id,
      before: { state: "active" },
      after: { state: "revoked" },
      reason: "laptop stolen",
      request: expect.stringMatching(/^req_[0-9a-f]{32}$/),
      address: "127.0.0.1",
      uniqueId: expect.stringMatching(/^aud_[0-9a-f]{32}$/),
    },
  ]);
});

test("POST /v1/auth/revoke blanks keys in the reason", async () => {
  const key = await service.issue();
  await revoke(key.apiKey, `pasted ${key.apiKey} into a chat`);
  expect((await auditOf(key))[0]?.reason).toBe("pasted [key] into a chat");
});

for (const reason of [undefined, null]) {
  test(`POST /v1/auth/revoke treats the reason ${reason} as no reason`, async () => {
    const key = await service.issue();
    expect(await revoke(key.apiKey, reason)).toMatchObject({ status: 200 });
    expect((await auditOf(key))[0]?.reason).toBeNull();
  });
}

for (const reason of ["ü".repeat(2_000), "🧠".repeat(2_000), `${"x".repeat(1_980)} ${"🧠".repeat(9)}`]) {
  test(`POST /v1/auth/revoke keeps a reason of 2,000 characters, such as ${reason.slice(-3)}`, async () => {
    const key = await service.issue();
    expect(await revoke(key.apiKey, reason)).toMatchObject({ status: 200 });
    expect((await auditOf(key))[0]?.reason).toBe(reason);
  });
}

for (const [what, reason] of [
  ["of 2,001 characters", "x".repeat(2_001)],
  ["that is a number", 5],
  ["that is an object", {}],
  ["with NUL", "a\u0000b"],
  ["with U+FFFD", "a\uFFFDb"],
  ["with an unpaired surrogate", "a\uD800b"],
] as const) {
  test(`POST /v1/auth/revoke refuses a reason ${what} and revokes nothing`, async () => {
    const key = await service.issue();
    expectRefusal(await revoke(key.apiKey, reason), 400, "INVALID_REQUEST");
    expect(await validate(key.apiKey)).toMatchObject({ status: 200 });
    expect(await auditOf(key)).toEqual([]);
  });
}

test("POST /v1/auth/validate refuses a key within a second after another process changed it", async () => {
  await using neighbour = await startTestService({ on: service.testDatabase });
  const revoked = await service.issue();
  for (const at of [service, neighbour])
    expect(await validate(revoked.apiKey, at)).toMatchObject({ status: 200 });
  const suspended = await issueIn(service, "active");
  expect(await validate(suspended.apiKey, neighbour)).toMatchObject({ status: 200 });
  await service.database.query(
    (sql) => sql`update keys set state = 'suspended' where id = ${uuidOf(suspended)}::uuid`,
  );
  await revoke(revoked.apiKey);
  const beganMs = performance.now();
  let lastServedMs = beganMs;
  for (const { apiKey } of [revoked, suspended]) {
    await until(async () => {
      const askedMs = performance.now();
      const { status } = await validate(apiKey, neighbour);
      if (status === 200) lastServedMs = askedMs;
      return status === 401;
    });
    expectRefusal(await validate(apiKey, neighbour), 401, "INVALID_KEY");
  }
  expect(lastServedMs - beganMs).toBeLessThan(1_000);
});

import { beforeEach, describe, expect, test } from "bun:test";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import { expectRefusal } from "../support/answers.ts";
import { createTestClock } from "../support/clock.ts";
import { call, ENDPOINTS } from "../support/endpoints.ts";
import { setToken } from "../support/installer.ts";
import { issueBeside, issueUsedUp, updateLicense, uuidOf } from "../support/keys.ts";
import { startTestService } from "../support/service.ts";
import { useTestService } from "../support/use.ts";

const service = useTestService({ clock: createTestClock("2026-11-20T10:00:00Z") });

const log = (key: IssuedKey, type = "inference", at = service) =>
  call(at, ENDPOINTS.analyticsLog, key.apiKey, { fields: { event_type: type } });
const quotaOf = async (key: IssuedKey, at = service) =>
  (await call(at, ENDPOINTS.refresh, key.apiKey)).body.quota;

async function setLimit(key: IssuedKey, limit: number) {
  await updateLicense(service, key, { monthly_limit: limit });
  await service.service.directory.beat();
}

async function countStored(key: IssuedKey) {
  const [row] = await service.database.query<{ events: number }>(
    (sql) => sql`select count(*) as events from events where key_id = ${uuidOf(key)}::uuid`,
  );
  return row?.events;
}

test("POST /v1/analytics/log uses one unit of quota for each inference event", async () => {
  const key = await service.issue({ monthlyLimit: 10 });
  for (const used of [1, 2, 3]) {
    expect((await log(key)).body.quota).toEqual({ used, remaining: 10 - used });
  }
  expect(await quotaOf(key)).toMatchObject({ monthly_limit: 10, used: 3, remaining: 7 });
  const validated = await call(service, ENDPOINTS.validate, key.apiKey);
  expect(validated.body.quota).toMatchObject({ used: 3, remaining: 7 });
});

for (const type of ["model_load", "error"]) {
  test.each([9, 0])(`POST /v1/analytics/log uses no quota for ${type}, with %d units left`, async (left) => {
    const key = await service.issue({ monthlyLimit: 1 + left });
    await log(key);
    expect(await log(key, type)).toMatchObject({
      status: 202,
      body: { quota: { used: 1, remaining: left } },
    });
    expect(await quotaOf(key)).toMatchObject({ used: 1, remaining: left });
  });
}

test("Only an inference event uses quota, and no other request does", async () => {
  await setToken(service);
  const key = await service.issue({ monthlyLimit: 10 });
  const { validate, refresh, modelsList, getRepoToken, postRepoToken } = ENDPOINTS;
  for (const endpoint of [validate, refresh, modelsList, getRepoToken, postRepoToken]) {
    expect(await call(service, endpoint, key.apiKey)).toMatchObject({ status: 200 });
  }
  expect(await quotaOf(key)).toMatchObject({ used: 0 });
});

test("POST /v1/analytics/log counts the use of an unlimited license and never refuses it", async () => {
  const key = await service.issue({ tier: "enterprise" });
  await log(key);
  expect((await log(key)).body.quota).toEqual({ used: 2, remaining: null });
  expect(await quotaOf(key)).toMatchObject({ monthly_limit: null, used: 2, remaining: null });
});

test("The keys of a license share its quota", async () => {
  const key = await service.issue({ monthlyLimit: 2 });
  const other = await issueBeside(service, key);
  await log(key);
  expect((await log(other)).body.quota).toEqual({ used: 2, remaining: 0 });
  expectRefusal(await log(key), 429, "QUOTA_EXCEEDED");
});

describe("When the month's allowance is used up", () => {
  let key: IssuedKey;
  beforeEach(async () => {
    await setToken(service);
    key = await issueUsedUp(service);
  });

  test("POST /v1/auth/validate answers QUOTA_EXCEEDED without Retry-After", async () => {
    const answer = await call(service, ENDPOINTS.validate, key.apiKey);
    expectRefusal(answer, 429, "QUOTA_EXCEEDED");
    expect(answer.headers.has("retry-after")).toBe(false);
  });

  test("POST /v1/analytics/log refuses an inference event, and does not store or count it", async () => {
    const answer = await log(key);
    expectRefusal(answer, 429, "QUOTA_EXCEEDED");
    expect(answer.headers.has("retry-after")).toBe(false);
    expect(await countStored(key)).toBe(1);
    expect(await quotaOf(key)).toMatchObject({ used: 1, remaining: 0 });
  });

  const { refresh, modelsList, getRepoToken, postRepoToken, revoke } = ENDPOINTS;
  for (const endpoint of [refresh, modelsList, getRepoToken, postRepoToken, revoke]) {
    test(`${endpoint.title} keeps working`, async () => {
      expect(await call(service, endpoint, key.apiKey)).toMatchObject({ status: 200 });
    });
  }
});

test("Below what was used, a lowered limit refuses validation and inferences until it is raised", async () => {
  const key = await service.issue({ monthlyLimit: 10 });
  for (let i = 0; i < 3; i++) await log(key);
  await setLimit(key, 1);
  expect(await quotaOf(key)).toMatchObject({ monthly_limit: 1, used: 3, remaining: 0 });
  expectRefusal(await call(service, ENDPOINTS.validate, key.apiKey), 429, "QUOTA_EXCEEDED");
  expectRefusal(await log(key), 429, "QUOTA_EXCEEDED");
  await setLimit(key, 5);
  const { body } = await call(service, ENDPOINTS.validate, key.apiKey);
  expect(body.quota).toMatchObject({ monthly_limit: 5, used: 3, remaining: 2 });
});

test("POST /v1/analytics/log accepts exactly the limit, even in the first batch of a month", async () => {
  const key = await service.issue({ monthlyLimit: 7 });
  const answers = await Promise.all(Array.from({ length: 30 }, () => log(key)));
  const taken = answers.filter(({ status }) => status === 202);
  expect(taken.map(({ body }) => body.quota.used).toSorted()).toEqual([1, 2, 3, 4, 5, 6, 7]);
  for (const answer of answers) if (answer.status !== 202) expectRefusal(answer, 429, "QUOTA_EXCEEDED");
  expect(await countStored(key)).toBe(7);
});

test("When a month ends, the quota starts again at 0 and shows its next reset", async () => {
  await using yearEnd = await startTestService({ clock: createTestClock("2026-12-31T23:59:30Z") });
  const key = await issueUsedUp(yearEnd, { tier: "free" });
  expect(await quotaOf(key, yearEnd)).toMatchObject({ used: 1, resets_at: "2027-01-01T00:00:00Z" });
  expectRefusal(await log(key, "inference", yearEnd), 429, "QUOTA_EXCEEDED");
  // Change only the wall clock, so that the key stays in the cache with the old month's count.
  yearEnd.clock.setWall("2027-01-01T00:00:00Z");
  const { body } = await call(yearEnd, ENDPOINTS.validate, key.apiKey);
  expect(body.quota).toEqual({
    monthly_limit: 1,
    used: 0,
    remaining: 1,
    resets_at: "2027-02-01T00:00:00Z",
  });
  expect((await log(key, "inference", yearEnd)).body.quota).toEqual({ used: 1, remaining: 0 });
  expectRefusal(await log(key, "inference", yearEnd), 429, "QUOTA_EXCEEDED");
});

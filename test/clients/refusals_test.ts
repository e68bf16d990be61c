/** Refusals that two processes on one database count for each key. */
import { expect, test } from "bun:test";
import { listRefusalCounts } from "../../src/licensing/keys/mod.ts";
import { call, ENDPOINTS } from "../support/endpoints.ts";
import { issueIn, issueUsedUp, UNKNOWN_KEY, uuidOf } from "../support/keys.ts";
import { addTestModel } from "../support/models.ts";
import { NO_LIMITS, startTestService, type TestService } from "../support/service.ts";
import { useTestDatabase } from "../support/use.ts";

const on = useTestDatabase();
const { validate, refresh, revoke, getRepoToken, analyticsLog } = ENDPOINTS;

test("The refusals of a key by all processes are in the table after the processes have stopped", async () => {
  const limits = { ...NO_LIMITS, refresh: 2 };
  const first = await startTestService({ config: { limits }, on });
  const second = await startTestService({ config: { limits }, on });
  const both = async (send: (service: TestService) => Promise<unknown>) => {
    for (const service of [first, second]) await send(service);
  };
  const suspended = await issueIn(first, "suspended");
  const revoked = await issueIn(first, "revoked");
  const expired = await issueIn(first, "expired");
  const usedUp = await issueUsedUp(first);
  const active = await first.issue();

  await both((service) => call(service, validate, suspended.apiKey));
  await both((service) => call(service, analyticsLog, suspended.apiKey));
  await both((service) => call(service, validate, revoked.apiKey));
  await call(first, revoke, revoked.apiKey);
  await both((service) => call(service, validate, expired.apiKey));
  await both((service) => call(service, analyticsLog, usedUp.apiKey));
  await both((service) => call(service, validate, UNKNOWN_KEY));
  // Each process refuses two of the four requests, because of the limit.
  for (let round = 0; round < 4; round++) await both((service) => call(service, refresh, active.apiKey));
  await call(first, getRepoToken, active.apiKey);
  await call(first, analyticsLog, active.apiKey, { fields: { event_type: "no such type" } });
  await first.get("/v1/models/download/none/1", { "X-API-Key": active.apiKey });
  await addTestModel(first, { name: "above", requiresLicense: "enterprise" });
  await first.get("/v1/models/download/above/1.0.0", { "X-API-Key": active.apiKey });
  await both((service) => service.close());

  const countsOf = async (key: typeof active) =>
    (await listRefusalCounts(on.database, uuidOf(key)))
      .map(({ code, reason, count }) => `${code} ${reason ?? "-"} ${count}`)
      .toSorted();
  expect(await countsOf(suspended)).toEqual(["INVALID_KEY suspended 4"]);
  expect(await countsOf(revoked)).toEqual(["INVALID_KEY revoked 2", "KEY_NOT_FOUND revoked 1"]);
  expect(await countsOf(expired)).toEqual(["KEY_EXPIRED expired 2"]);
  expect(await countsOf(usedUp)).toEqual(["QUOTA_EXCEEDED - 2"]);
  expect(await countsOf(active)).toEqual([
    "LICENSE_REQUIRED - 1",
    "NOT_CONFIGURED - 1",
    "NOT_FOUND - 1",
    "RATE_LIMIT_EXCEEDED refresh 4",
  ]);
  const [keys] = await on.database.query<{ refused: number }>(
    (sql) => sql`select count(distinct key_id) as refused from refusals`,
  );
  expect(keys?.refused).toBe(5);
});

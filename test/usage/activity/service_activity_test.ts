/** A service adds its answers to the hourly counts, also when it stops. */
import { beforeEach, expect, test } from "bun:test";
import { isRefusal } from "../../../src/base/refusal.ts";
import type { Config } from "../../../src/installation/config/mod.ts";
import { type ActivityName, findActivity } from "../../../src/usage/activity/mod.ts";
import { createConsoleClient } from "../../admin/console_client.ts";
import { createTestClock } from "../../support/clock.ts";
import { call, ENDPOINTS } from "../../support/endpoints.ts";
import { UNKNOWN_KEY } from "../../support/keys.ts";
import { startTestService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { useTestDatabase } from "../../support/use.ts";

const on = useTestDatabase();

beforeEach(async () => {
  await on.database.query((sql) => sql`truncate activity_hours, activity_days`);
});

/** Returns the counts of the test clock's day. All requests are in one hour, so each name has one row. */
async function counts(by: ActivityName): Promise<Record<string, number>> {
  const [from, to] = [new Date("2026-11-22T00:00:00Z"), new Date("2026-11-23T00:00:00Z")];
  const found = await findActivity(on.database, { from, to, by, step: "hour" });
  if (isRefusal(found)) throw new Error(found.sentence);
  return Object.fromEntries(found.map(({ name, count }) => [name, count]));
}

const start = (config: Partial<Config> = {}) =>
  startTestService({ on, config, clock: createTestClock("2026-11-22T09:10:00Z") });

test("a thousand refusals are on the page Activity after less than two minutes", async () => {
  const service = await start({ adminListen: { host: "127.0.0.1", port: 0 } });
  try {
    const client = createConsoleClient({ ...service, url: service.service.admin?.url ?? "" });
    const { cookie } = await client.logIn("viewer");
    for (let round = 0; round < 10; round++)
      await Promise.all(Array.from({ length: 100 }, () => call(service, ENDPOINTS.validate, UNKNOWN_KEY)));
    await service.advance(61_000);
    const page = async () => (await client.send("/activity", { cookie })).text;
    await until(async () =>
      (await page()).includes("11-22 09:00, not over\nunknown, suspended or revoked key 1,000"),
    );
    expect(await counts("code")).toEqual({ INVALID_KEY: 1_000 });
    expect(await counts("reason")).toEqual({ unknown: 1_000 });
    expect(await counts("endpoint")).toEqual({ validate: 1_000 });
  } finally {
    await service.close();
  }
});

test("a stopping service writes its last minute; two services add to the same hour", async () => {
  const services = [await start(), await start()];
  const [first] = services;
  const { apiKey } = (await first?.issue()) ?? { apiKey: "" };
  for (const service of services) {
    await call(service, ENDPOINTS.validate, apiKey);
    await call(service, ENDPOINTS.refresh, UNKNOWN_KEY);
    await service.get("/made/up");
  }
  expect(await counts("code")).toEqual({});
  for (const service of services) await service.close();
  expect(await counts("code")).toEqual({ OK: 2, INVALID_KEY: 2, NOT_FOUND: 2 });
  expect(await counts("endpoint")).toEqual({ validate: 2, refresh: 2, other: 2 });
});

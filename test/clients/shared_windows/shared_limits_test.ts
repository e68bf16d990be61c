/** Two services with CLAVIGER_RATE_LIMITS=shared on one database, asked by turns. */
import { expect, test } from "bun:test";
import { parseId } from "../../../src/base/ids.ts";
import { createInstallation } from "../../several_processes/installation.ts";
import { countWaiting } from "../../support/count_waiting.ts";
import { createTestDatabase } from "../../support/database.ts";
import { inTransaction } from "../../support/in_transaction.ts";
import { issue } from "../../support/issue.ts";
import { limitsOf, startTestService, type TestService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { useForAll } from "../../support/use.ts";

const LIMIT = 20;

const set = useForAll(async () => {
  const on = await createTestDatabase();
  const start = () => startTestService({ on, config: { rateLimits: "shared", limits: limitsOf(LIMIT) } });
  const services = [await start(), await start()] as const;
  const close = async () => {
    for (const service of services) await service.close();
    await on.close();
  };
  return { on, services, close };
});

const validate = (service: TestService, apiKey: string) =>
  service.post("/v1/auth/validate", { api_key: apiKey });

/** Returns how many requests of a key count at validate. */
async function totalOf(id: string): Promise<number | undefined> {
  const [row] = await set.on.database.query<{ total: number }>(
    (sql) => sql`
      select total from shared_windows where key_id = ${parseId("key", id) ?? ""}::uuid and endpoint = 'validate'`,
  );
  return row?.total;
}

test("Two services admit together as many requests of a key as the limit says", async () => {
  const { apiKey } = await set.services[0].issue();
  const answers = await Promise.all(
    Array.from({ length: 3 * LIMIT }, (_, i) => validate(set.services[i % 2 === 0 ? 0 : 1], apiKey)),
  );
  const withStatus = (wanted: number) => answers.filter(({ status }) => status === wanted);
  const left = withStatus(200).map(({ headers }) => headers.get("x-ratelimit-remaining"));
  expect(new Set(left).size).toBe(left.length);
  // 503: on a busy machine a statement may be late. Its requests may have taken places in the window.
  const late = withStatus(503).length;
  expect(left.length).toBeWithin(LIMIT - late, LIMIT + 1);
  const refused = withStatus(429);
  expect(left.length + late + refused.length).toBe(3 * LIMIT);
  for (const { headers } of refused) expect(Number(headers.get("retry-after"))).toBeWithin(1, 62);
});

test("A key that is revoked while its request waits to be counted is refused, and the request counts by its address", async () => {
  const [service, other] = set.services;
  const { apiKey, id } = await service.issue();
  expect((await validate(service, apiKey)).status).toBe(200);
  const waiting = await inTransaction(set.on.address, async (sql) => {
    await sql`select from shared_windows for update`;
    const asked = validate(service, apiKey);
    expect((await other.post("/v1/auth/revoke", { api_key: apiKey })).status).toBe(200);
    await service.service.directory.beat();
    return { asked };
  });
  expect(await waiting.asked).toMatchObject({ status: 401, body: { code: "INVALID_KEY" } });
  // Its own request and not the refused one.
  await until(async () => (await totalOf(id)) === 1);
});

test("A request that was counted too late for an answer within 5 s gets 503, and is taken back", async () => {
  const [service] = set.services;
  const { apiKey, id } = await service.issue();
  expect((await validate(service, apiKey)).status).toBe(200);
  const { asked } = await inTransaction(set.on.address, async (sql) => {
    await sql`select from shared_windows for update`;
    const asked = validate(service, apiKey);
    await until(async () => (await countWaiting(set.on.database)) > 0);
    await service.advance(2_000);
    return { asked };
  });
  expect(await asked).toMatchObject({ status: 503, body: { code: "SERVICE_UNAVAILABLE" } });
  await until(async () => (await totalOf(id)) === 1);
});

test("Without a pulse a cached key gets 503 at once, and the request is not counted", async () => {
  const installation = await createInstallation();
  try {
    const replica = await installation.serve({
      CLAVIGER_RATE_LIMITS: "shared",
      CLAVIGER_LIMIT_VALIDATE: "100",
    });
    const { apiKey } = await issue(installation.database);
    let admitted = 0;
    const ask = async () => {
      const { status } = await replica.post("/v1/auth/validate", { api_key: apiKey });
      if (status === 200) admitted++;
      return status;
    };
    const total = async () => {
      const [row] = await installation.database.query<{ total: number }>(
        (sql) => sql`select total from shared_windows`,
      );
      return row?.total;
    };
    await until(async () => (await ask()) === 200);
    await replica.gate.shut();
    await until(async () => (await ask()) === 503);
    // The last request may have been counted while the pulse was still trusted.
    await until(async () => (await total()) === admitted);
    for (let i = 0; i < 3; i++) expect(await ask()).toBe(503);
    expect(await total()).toBe(admitted);
  } finally {
    await installation.close();
  }
});

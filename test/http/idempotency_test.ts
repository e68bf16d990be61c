/** `Idempotency-Key` on analytics: an event that is sent again is stored and counted once. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { newUuid } from "../../src/ids.ts";
import { silentLog } from "../../src/log.ts";
import { createUpkeep } from "../../src/usage/mod.ts";
import { startTestService, type TestService } from "../support/service.ts";

let service: TestService;
/** A second service on the same database, as another process of the installation. */
let other: TestService;

beforeAll(async () => {
  service = await startTestService();
  other = await startTestService({ on: service.testDatabase });
});
afterAll(async () => {
  await other.close();
  await service.close();
});

function log(
  apiKey: string,
  claim: string,
  { fields = {}, at = service }: { fields?: object; at?: TestService } = {},
) {
  const event = { api_key: apiKey, event_type: "inference", ...fields };
  return at.post("/v1/analytics/log", event, { "Idempotency-Key": claim });
}

async function countStored(licenseUuid: string): Promise<{ events: number; used: number; claims: number }> {
  const [row] = await service.database.query<{ events: number; used: number; claims: number }>(
    (sql) => sql`
      select (select count(*) from events where license_id = ${licenseUuid}::uuid) as events,
             (select coalesce(sum(used), 0)::bigint from usage where license_id = ${licenseUuid}::uuid) as used,
             (select count(*) from claims c join keys k on k.id = c.key_id
               where k.license_id = ${licenseUuid}::uuid) as claims`,
  );
  if (row === undefined) throw new Error("No counts");
  return row;
}

describe("POST /v1/analytics/log with an Idempotency-Key", () => {
  test("gives the same event_id again, and counts once", async () => {
    const { apiKey, licenseUuid } = await service.issue();
    const first = await log(apiKey, "a");
    const again = await log(apiKey, "a");
    expect([first.status, again.status]).toEqual([202, 202]);
    expect(again.body).toEqual(first.body);
    expect(await countStored(licenseUuid)).toEqual({ events: 1, used: 1, claims: 1 });
  });

  test("knows one that came through another process", async () => {
    const { apiKey, licenseUuid } = await service.issue();
    const first = await log(apiKey, "a");
    const again = await log(apiKey, "a", { at: other });
    expect(again.body.event_id).toBe(first.body.event_id);
    expect(await countStored(licenseUuid)).toEqual({ events: 1, used: 1, claims: 1 });
  });

  test("counts once where forty arrive together in two processes", async () => {
    const { apiKey, licenseUuid } = await service.issue();
    for (const claim of ["a", "b", "c", "d", "e"]) {
      const answers = await Promise.all(
        Array.from({ length: 40 }, (_, index) =>
          log(apiKey, claim, { at: index % 2 === 0 ? service : other }),
        ),
      );
      expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 40 }, () => 202));
      expect(new Set(answers.map(({ body }) => body.event_id)).size).toBe(1);
    }
    expect(await countStored(licenseUuid)).toEqual({ events: 5, used: 5, claims: 5 });
  });

  test("is 422 INVALID_REQUEST for another event, which changes nothing", async () => {
    const { apiKey, licenseUuid } = await service.issue();
    await log(apiKey, "a", { fields: { duration_ms: 1 } });
    const refused = await log(apiKey, "a", { fields: { duration_ms: 2 } });
    expect(refused).toMatchObject({ status: 422, body: { code: "INVALID_REQUEST" } });
    expect(await countStored(licenseUuid)).toEqual({ events: 1, used: 1, claims: 1 });
  });

  test("is 422 for all but one of different events that arrive together", async () => {
    const { apiKey, licenseUuid } = await service.issue();
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, index) => log(apiKey, "a", { fields: { duration_ms: index } })),
    );
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 422)).toHaveLength(7);
    expect(await countStored(licenseUuid)).toEqual({ events: 1, used: 1, claims: 1 });
  });

  test("belongs to its API key: another's is another event", async () => {
    const [mine, theirs] = [await service.issue(), await service.issue()];
    const [first, second] = [await log(mine.apiKey, "a"), await log(theirs.apiKey, "a")];
    expect(first.body.event_id).not.toBe(second.body.event_id);
  });

  test("leaves no claim behind where quota refused the event", async () => {
    const { apiKey, licenseUuid } = await service.issue({ monthlyLimit: 1 });
    await log(apiKey, "a");
    // The cached count would refuse it before it is written: only the database's own grant is asked here.
    const together = await Promise.all(["b", "c", "d"].map((claim) => log(apiKey, claim)));
    expect(together.map(({ body }) => body.code)).toEqual(Array.from({ length: 3 }, () => "QUOTA_EXCEEDED"));
    await service.database.query(
      (sql) => sql`update licenses set monthly_limit = 2 where id = ${licenseUuid}::uuid`,
    );
    await service.service.directory.beat();
    expect((await log(apiKey, "b")).status).toBe(202);
    expect(await countStored(licenseUuid)).toEqual({ events: 2, used: 2, claims: 2 });
  });

  test("knows the event that took the month's last unit", async () => {
    const { apiKey, licenseUuid } = await service.issue({ monthlyLimit: 1 });
    const first = await log(apiKey, "a");
    const again = await log(apiKey, "a");
    expect(again).toMatchObject({ status: 202, body: first.body });
    expect(await log(apiKey, "b")).toMatchObject({ status: 429, body: { code: "QUOTA_EXCEEDED" } });
    expect(await countStored(licenseUuid)).toEqual({ events: 1, used: 1, claims: 1 });
  });

  test("leaves no claim of the events that a race for the last unit refused", async () => {
    const { apiKey, licenseUuid } = await service.issue({ monthlyLimit: 3 });
    const answers = await Promise.all(Array.from({ length: 9 }, () => log(apiKey, newUuid())));
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(3);
    expect(await countStored(licenseUuid)).toEqual({ events: 3, used: 3, claims: 3 });
  });

  test("counts one anew after 24 hours", async () => {
    const { apiKey, licenseUuid } = await service.issue();
    await log(apiKey, "a");
    await service.database.query(
      (sql) => sql`update claims set claimed_at = claimed_at - interval '25 hours'`,
    );
    const upkeep = createUpkeep({ ...service, log: silentLog });
    await upkeep.clean();
    await upkeep.stop();
    expect((await log(apiKey, "a")).status).toBe(202);
    expect((await countStored(licenseUuid)).events).toBe(2);
  });

  test.each([
    ["", 400],
    ["x".repeat(255), 202],
    ["x".repeat(256), 400],
  ] as const)("takes 1 to 255 printable characters: %p is %d", async (claim, status) => {
    const { apiKey } = await service.issue();
    expect((await log(apiKey, claim)).status).toBe(status);
  });
});

/** `Idempotency-Key` of POST /v1/analytics/log: an event that is sent again is stored and counted once. */

import { describe, expect, test } from "bun:test";
import { hash } from "node:crypto";
import { newUuid, parseId } from "../../src/base/ids.ts";
import { silentLog } from "../../src/base/log.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { rotateKey } from "../../src/licensing/keys/mod.ts";
import { createLicenseChanges } from "../../src/licensing/mod.ts";
import { updateLicense } from "../support/keys.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { createTestUpkeep } from "../support/upkeep.ts";
import { useForAll, useTestService } from "../support/use.ts";

const service = useTestService();
/** A second service on the same database, like another process of one installation. */
const other = useForAll(() => startTestService({ on: service.testDatabase }));

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
             (select count(*) from claims where key_id = ${licenseUuid}::uuid and by_license) as claims`,
  );
  if (row === undefined) throw new Error("No counts");
  return row;
}

describe("POST /v1/analytics/log with an Idempotency-Key", () => {
  test("answers a repeated event with the same event_id and counts it once", async () => {
    const { apiKey, licenseUuid } = await service.issue();
    const first = await log(apiKey, "a");
    const again = await log(apiKey, "a");
    expect([first.status, again.status]).toEqual([202, 202]);
    expect(again.body).toEqual(first.body);
    expect(await countStored(licenseUuid)).toEqual({ events: 1, used: 1, claims: 1 });
  });

  test("recognizes a repeated event that another process stored", async () => {
    const { apiKey, licenseUuid } = await service.issue();
    const first = await log(apiKey, "a");
    const again = await log(apiKey, "a", { at: other });
    expect(again.body.event_id).toBe(first.body.event_id);
    expect(await countStored(licenseUuid)).toEqual({ events: 1, used: 1, claims: 1 });
  });

  test("counts an event once if forty copies arrive at the same time in two processes", async () => {
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

  const full = {
    model_name: "m",
    inference_type: "batch",
    duration_ms: 12.5,
    error_message: "failed for svc_live_0123456789abcdef",
    metadata: { a: [1, { b: 2, c: null }], d: "x" },
  };

  test.each([
    [
      "without its null fields",
      {},
      { model_name: null, inference_type: null, metadata: null, success: null },
    ],
    ["without the default of success", {}, { success: true }],
    ["with the default of success", { event_type: "error", success: false }, { event_type: "error" }],
    ["with its fields in another order", full, Object.fromEntries(Object.entries(full).toReversed())],
    ["with metadata in another order", full, { ...full, metadata: { d: "x", a: [1, { c: null, b: 2 }] } }],
    ["with its numbers written differently", full, { ...full, duration_ms: 125e-1 }],
    ["with unknown fields", full, { ...full, unknown: 1 }],
    ["with another key in a text", full, { ...full, error_message: "failed for svc_live_fedcba9876543210" }],
  ])("treats an event as the same %s", async (_, one, same) => {
    const { apiKey, licenseUuid } = await service.issue();
    const first = await log(apiKey, "a", { fields: one });
    expect(await log(apiKey, "a", { fields: same, at: other })).toMatchObject({
      status: 202,
      body: { event_id: first.body.event_id },
    });
    expect((await countStored(licenseUuid)).events).toBe(1);
  });

  test.each([
    ["event_type", { event_type: "model_load" }],
    ["inference_type", { inference_type: "streaming" }],
    ["inference_type", { inference_type: null }],
    ["success", { success: false }],
    ["duration_ms", { duration_ms: 12.500000000000002 }],
    ["duration_ms", { duration_ms: null }],
    ["model_name", { model_name: "n" }],
    ["model_name", { model_name: "" }],
    ["error_message", { error_message: null }],
    ["metadata", { metadata: { a: [1, { b: 2 }], d: "x" } }],
    ["metadata", { metadata: { a: [{ b: 2, c: null }, 1], d: "x" } }],
    ["metadata", { metadata: { a: [1, { b: "2", c: null }], d: "x" } }],
    ["metadata", { metadata: {} }],
    ["metadata", { metadata: null }],
  ])("names %s in the 422 to an event that has %j", async (field, changed) => {
    const { apiKey, licenseUuid } = await service.issue();
    await log(apiKey, "a", { fields: full });
    expect(await log(apiKey, "a", { fields: { ...full, ...changed } })).toMatchObject({
      status: 422,
      body: {
        code: "INVALID_REQUEST",
        error: expect.stringContaining(`another event, whose ${field} differs:`),
      },
    });
    expect((await countStored(licenseUuid)).events).toBe(1);
  });

  test("counts an event once if the API key was rotated between the requests", async () => {
    const { apiKey, id, licenseUuid } = await service.issue();
    const keyUuid = parseId("key", id) ?? "";
    const first = await log(apiKey, "a");
    const rotated = await rotateKey(
      createLicenseChanges(service.database),
      { uuid: keyUuid, mode: "live", overlapMs: 3_600_000 },
      {
        brand: service.config.brand,
        actor: { kind: "command", name: "test" },
        now: service.clock.now(),
      },
    );
    if (isRefusal(rotated)) throw new Error(rotated.sentence);
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        log(index % 3 === 0 ? apiKey : rotated.apiKey, "a", { at: index % 2 === 0 ? service : other }),
      ),
    );
    expect(new Set(answers.map(({ body }) => body.event_id))).toEqual(new Set([first.body.event_id]));
    expect(await countStored(licenseUuid)).toEqual({ events: 1, used: 1, claims: 1 });
    const both = await Promise.all(
      [apiKey, rotated.apiKey].map((key, index) => log(key, "b", { at: index === 0 ? service : other })),
    );
    expect(both[0]?.body.event_id).toBe(both[1]?.body.event_id);
    expect(await countStored(licenseUuid)).toEqual({ events: 2, used: 2, claims: 2 });
  });

  test("finds a claim of an earlier version by its API key, and compares the event as that version did", async () => {
    const { apiKey, id, licenseUuid } = await service.issue();
    const keyUuid = parseId("key", id) ?? "";
    const eventUuid = newUuid();
    const fields = { model_name: "m", duration_ms: 1 };
    // That version hashed the fields in the schema's order, without absent fields.
    const earlierHash = hash("sha256", JSON.stringify({ event_type: "inference", ...fields }), "hex");
    await service.database.query(
      (sql) => sql`
        insert into claims (key_id, claim, event_hash, event_id, claimed_at)
        values (${keyUuid}::uuid, sha256('a'), decode(${earlierHash}::text, 'hex'), ${eventUuid}::uuid, now())`,
    );
    const again = await log(apiKey, "a", { fields: { duration_ms: 1, model_name: "m" } });
    expect(again.status).toBe(202);
    expect(parseId("evt", again.body.event_id)).toBe(eventUuid);
    const refused = await log(apiKey, "a", { fields: { ...fields, success: true } });
    expect(refused).toMatchObject({
      status: 422,
      body: { error: expect.stringContaining("was sent with another event:") },
    });
    expect(await countStored(licenseUuid)).toEqual({ events: 0, used: 0, claims: 0 });
  });

  test("accepts one of several different events that arrive at the same time, and answers 422 to the others", async () => {
    const { apiKey, licenseUuid } = await service.issue();
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, index) => log(apiKey, "a", { fields: { duration_ms: index } })),
    );
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(1);
    const refused = answers.filter(({ status }) => status === 422);
    expect(refused).toHaveLength(7);
    for (const { body } of refused) expect(body.error).toContain("whose duration_ms differs");
    expect(await countStored(licenseUuid)).toEqual({ events: 1, used: 1, claims: 1 });
  });

  test("belongs to one license: another license can use it for another event", async () => {
    const [mine, theirs] = [await service.issue(), await service.issue()];
    const [first, second] = [await log(mine.apiKey, "a"), await log(theirs.apiKey, "a")];
    expect(first.body.event_id).not.toBe(second.body.event_id);
  });

  test("stores no claim if the quota refused the event", async () => {
    const { apiKey, licenseUuid } = await service.issue({ monthlyLimit: 1 });
    await log(apiKey, "a");
    // The cached count refuses an event before it is written. Three at once reach the database's own check.
    const together = await Promise.all(["b", "c", "d"].map((claim) => log(apiKey, claim)));
    expect(together.map(({ body }) => body.code)).toEqual(Array.from({ length: 3 }, () => "QUOTA_EXCEEDED"));
    await updateLicense(service, { licenseUuid }, { monthly_limit: 2 });
    await service.service.directory.beat();
    expect((await log(apiKey, "b")).status).toBe(202);
    expect(await countStored(licenseUuid)).toEqual({ events: 2, used: 2, claims: 2 });
  });

  test("recognizes the event that used the month's last unit", async () => {
    const { apiKey, licenseUuid } = await service.issue({ monthlyLimit: 1 });
    const first = await log(apiKey, "a");
    const again = await log(apiKey, "a");
    expect(again).toMatchObject({ status: 202, body: first.body });
    expect(await log(apiKey, "b")).toMatchObject({ status: 429, body: { code: "QUOTA_EXCEEDED" } });
    expect(await countStored(licenseUuid)).toEqual({ events: 1, used: 1, claims: 1 });
  });

  test("stores no claims of events that lost a race for the last units", async () => {
    const { apiKey, licenseUuid } = await service.issue({ monthlyLimit: 3 });
    const answers = await Promise.all(Array.from({ length: 9 }, () => log(apiKey, newUuid())));
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(3);
    expect(await countStored(licenseUuid)).toEqual({ events: 3, used: 3, claims: 3 });
  });

  test("is forgotten after 24 hours: the event is stored and counted again", async () => {
    const { apiKey, licenseUuid } = await service.issue();
    await log(apiKey, "a");
    await service.database.query(
      (sql) => sql`update claims set claimed_at = claimed_at - interval '25 hours'`,
    );
    const upkeep = createTestUpkeep({ ...service, log: silentLog }, ["claims"]);
    await upkeep.runAll();
    await upkeep.stop();
    expect((await log(apiKey, "a")).status).toBe(202);
    expect((await countStored(licenseUuid)).events).toBe(2);
  });

  test.each([
    ["", 400],
    ["x".repeat(255), 202],
    ["x".repeat(256), 400],
  ] as const)("accepts 1 to 255 printable characters: %p gets %d", async (claim, status) => {
    const { apiKey } = await service.issue();
    expect((await log(apiKey, claim)).status).toBe(status);
  });
});

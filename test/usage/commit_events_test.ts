import { describe, expect, test } from "bun:test";
import { hash } from "node:crypto";
import { newUuid } from "../../src/base/ids.ts";
import { silentLog } from "../../src/base/log.ts";
import { openDatabase } from "../../src/database/mod.ts";
import { commitEvents, type Grant, type UsageEvent } from "../../src/usage/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { MUCH_ROOM, readSums, usageEvent } from "../support/events.ts";
import { issue } from "../support/issue.ts";
import { updateLicense } from "../support/keys.ts";
import { useTestDatabase } from "../support/use.ts";

const server = useTestDatabase();

async function commit(events: readonly UsageEvent[], database = server.database): Promise<readonly Grant[]> {
  return (
    await commitEvents(database, events, {
      processUuid: newUuid(),
      textBounds: MUCH_ROOM,
      deadlineMs: 10_000,
    })
  ).grants;
}

async function license(monthlyLimit?: number): Promise<string> {
  const key = await issue(server.database, {
    tier: "enterprise",
    ...(monthlyLimit !== undefined && { monthlyLimit }),
  });
  return key.licenseUuid;
}

const many = (count: number, fields: Partial<UsageEvent>) =>
  Array.from({ length: count }, () => usageEvent(fields));

describe("commitEvents()", () => {
  test("commitEvents() stores every field unchanged", async () => {
    const event = usageEvent({
      licenseUuid: await license(),
      receivedAtMs: Date.parse("2026-11-20T23:59:59.999Z"),
      modelName: 'a "quoted", {braced} \\ name',
      durationMs: 5e-324,
      success: false,
      errorMessage: "",
      metadata: '{"deep": [{"ünï": "\\"NULL\\""}], "n": 1e308}',
    });
    await commit([event]);
    const [row] = await server.database.query(
      (sql) => sql`select * from events where id = ${event.uuid}::uuid`,
    );
    expect(row).toEqual({
      ...{ id: event.uuid, key_id: event.keyUuid, license_id: event.licenseUuid, event_type: "inference" },
      ...{ model_name: event.modelName, inference_type: "batch", duration_ms: 5e-324, success: false },
      ...{ error_message: "", metadata: { deep: [{ ünï: '"NULL"' }], n: 1e308 } },
      received_at: new Date(event.receivedAtMs),
      occurred_at: null,
      report_id: null,
    });
  });

  test("commitEvents() stores null for a field that an event lacks, whether or not other events have the field", async () => {
    const licenseUuid = await license();
    const absent = {
      modelName: null,
      inferenceType: null,
      durationMs: null,
      errorMessage: null,
      metadata: null,
    };
    const bare = many(2, { licenseUuid, ...absent });
    const full = usageEvent({ licenseUuid, modelName: "a model", errorMessage: "why", metadata: "{}" });
    await commit(bare);
    await commit([usageEvent({ ...full, ...absent, uuid: newUuid() }), full]);
    const rows = await server.database.query<{ id: string; said: number }>(
      (sql) => sql`
        select id, num_nonnulls(model_name, inference_type, duration_ms, error_message, metadata) as said
          from events where license_id = ${licenseUuid}::uuid order by id`,
    );
    expect(rows.filter(({ id }) => id !== full.uuid).map(({ said }) => said)).toEqual([0, 0, 0]);
    expect(rows.filter(({ id }) => id === full.uuid).map(({ said }) => said)).toEqual([5]);
  });

  test("commitEvents() grants no more than the remaining quota, also in the month's first batch", async () => {
    const licenseUuid = await license(5);
    const events = many(8, { licenseUuid });
    expect([...(await commit(events))]).toEqual([{ licenseUuid, granted: 5, used: 5 }]);
    expect([...(await commit(many(1, { licenseUuid })))]).toEqual([{ licenseUuid, granted: 0, used: 5 }]);
    const stored = await server.database.query<{ id: string }>(
      (sql) => sql`select id from events where license_id = ${licenseUuid}::uuid order by id`,
    );
    // The first events in the given order were stored.
    expect(stored.map(({ id }) => id)).toEqual(events.slice(0, 5).map(({ uuid }) => uuid));
  });

  test("commitEvents() stores the granted events of a batch with claims, whatever events stand before them", async () => {
    const licenseUuid = await license(1);
    const claimed = () => {
      const digest = hash("sha256", newUuid(), "hex");
      return { licenseUuid, claim: { hash: digest, digest, eventHash: digest, occurredAtMs: null } };
    };
    const events = (["error", "inference", "inference"] as const).map((type) =>
      usageEvent({ ...claimed(), type }),
    );
    expect([...(await commit(events))]).toEqual([{ licenseUuid, granted: 1, used: 1 }]);
    expect(await readSums(server.database, licenseUuid)).toEqual({ used: 1, byDay: 1, stored: 1 });
  });

  test("commitEvents() grants no events with a limit of 0, and all without a limit", async () => {
    const [none, all] = [await license(0), await license()];
    const grants = await commit([...many(3, { licenseUuid: none }), ...many(3, { licenseUuid: all })]);
    expect(new Map(grants.map((grant) => [grant.licenseUuid, grant.granted]))).toEqual(
      new Map([
        [none, 0],
        [all, 3],
      ]),
    );
  });

  test.each(["free", "research", "commercial"] as const)(
    "commitEvents() applies the limit of the tier %s",
    async (tier) => {
      const { licenseUuid } = await issue(server.database, { tier });
      const limit = { free: 10_000, research: 50_000, commercial: 500_000 }[tier];
      await server.database.query(
        (sql) => sql`
        insert into usage (license_id, month, used)
        values (${licenseUuid}::uuid, '2026-11-01', ${limit - 2}::bigint)`,
      );
      const receivedAtMs = Date.parse("2026-11-20T00:00:00Z");
      const [grant] = await commit(many(3, { licenseUuid, receivedAtMs }));
      expect(grant).toEqual({ licenseUuid, granted: 2, used: limit });
    },
  );

  test("commitEvents() stores events that use no quota, even if the license has no quota left", async () => {
    const licenseUuid = await license(0);
    expect(
      await commit([
        ...many(2, { licenseUuid, type: "error" }),
        usageEvent({ licenseUuid, type: "model_load" }),
      ]),
    ).toHaveLength(0);
    const [row] = await server.database.query<{ stored: number }>(
      (sql) => sql`select count(*) as stored from events where license_id = ${licenseUuid}::uuid`,
    );
    expect(row?.stored).toBe(3);
    expect(await readSums(server.database, licenseUuid)).toEqual({ used: 0, byDay: 0, stored: 0 });
  });

  test("commitEvents() applies the present limit to the month of the event", async () => {
    const licenseUuid = await license(5);
    const at = (day: string) => ({ licenseUuid, receivedAtMs: Date.parse(`${day}T12:00:00Z`) });
    const setLimit = (limit: number) => updateLicense(server, { licenseUuid }, { monthly_limit: limit });
    expect(await commit(many(9, at("2026-11-01")))).toMatchObject([{ granted: 5, used: 5 }]);
    await setLimit(7);
    expect(await commit(many(9, at("2026-11-30")))).toMatchObject([{ granted: 2, used: 7 }]);
    await setLimit(3);
    expect(await commit(many(9, at("2026-11-30")))).toMatchObject([{ granted: 0, used: 7 }]);
    expect(await commit(many(9, at("2026-12-31")))).toMatchObject([{ granted: 3, used: 3 }]);
    const months = await server.database.query(
      (sql) => sql`
        select month::text, by_day[1] as first, by_day[30] as "30th", by_day[31] as "31st",
               array_length(by_day, 1) as days
          from usage where license_id = ${licenseUuid}::uuid order by month`,
    );
    expect([...months]).toEqual([
      { month: "2026-11-01", first: 5, "30th": 2, "31st": 0, days: 31 },
      { month: "2026-12-01", first: 0, "30th": 0, "31st": 3, days: 31 },
    ]);
  });

  test("commitEvents() of two processes never deadlocks, in 2,000 batches of the same licenses", async () => {
    const licenses = await Promise.all(Array.from({ length: 12 }, () => license(900)));
    const before = await readSums(server.database);
    const options = { clock: createTestClock(), log: silentLog, deadlineMs: 10_000, maxConnections: 2 };
    const processes = [openDatabase(server.address, options), openDatabase(server.address, options)];
    let granted = 0;
    const clients = processes.flatMap((database) =>
      [1, 2].map(async () => {
        for (let i = 0; i < 500; i++) {
          const events = Array.from({ length: 12 }, () =>
            usageEvent({ licenseUuid: licenses[Math.floor(Math.random() * licenses.length)] ?? "" }),
          );
          for (const grant of await commit(events, database)) granted += grant.granted;
        }
      }),
    );
    await Promise.all(clients);
    expect(granted).toBe(12 * 900);
    const sums = await readSums(server.database);
    for (const sum of ["used", "byDay", "stored"] as const) expect(sums[sum] - before[sum]).toBe(12 * 900);
    await Promise.all(processes.map((database) => database.close()));
  });
});

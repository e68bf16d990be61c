/** POST /v1/analytics/batch: events that come late and together, each counted once in the month in which it happened. */
import { describe, expect, test } from "bun:test";
import { DAY_MS, HOUR_MS } from "../../src/base/calendar.ts";
import { newUuid } from "../../src/base/ids.ts";
import { silentLog } from "../../src/base/log.ts";
import { type IssuedKey, listRefusalCounts } from "../../src/licensing/keys/mod.ts";
import { expectRefusal } from "../support/answers.ts";
import { createTestClock } from "../support/clock.ts";
import { call, ENDPOINTS } from "../support/endpoints.ts";
import { inTransaction } from "../support/in_transaction.ts";
import { updateLicense, uuidOf } from "../support/keys.ts";
import { ON_NODE, startTestService, type TestService } from "../support/service.ts";
import { until } from "../support/until.ts";
import { createTestUpkeep } from "../support/upkeep.ts";
import { useForAll, useTestService } from "../support/use.ts";

/** Offline from 28 October, back on 3 November. */
const BACK = "2026-11-03T09:00:00Z";
const OCTOBER = "2026-10-31T23:59:59.999Z";
const NOVEMBER = "2026-11-01T00:00:00Z";

const service = useTestService({ clock: createTestClock(BACK, { stands: true }) });
/** A second service on the same database, like another process of one installation. */
const other = useForAll(() => startTestService({ on: service.testDatabase, clock: service.clock }));

interface Sent {
  readonly [field: string]: unknown;
}

function inference(at: string, fields: Sent = {}): Sent {
  return { idempotency_key: newUuid(), occurred_at: at, event_type: "inference", ...fields };
}

const many = (count: number, at: string) => Array.from({ length: count }, () => inference(at));

function send(key: Pick<IssuedKey, "apiKey">, events: unknown, at: TestService = service) {
  return call(at, ENDPOINTS.analyticsBatch, key.apiKey, { fields: { events } });
}

/**
 * As {@linkcode send}, after the clock was moved. A statement in progress then looks late, and the service refuses requests until
 * the database answers again.
 */
async function sendAfterMove(...given: Parameters<typeof send>): ReturnType<typeof send> {
  let answer = await send(...given);
  await until(async () => {
    if (answer.status === 503) answer = await send(...given);
    return answer.status !== 503;
  });
  return answer;
}

interface Result {
  readonly logged: boolean;
  readonly code?: string;
  readonly event_id?: string;
  readonly month?: string;
  readonly quota?: { readonly used: number; readonly remaining: number | null };
}

async function resultsOf(key: IssuedKey, events: readonly Sent[], at = service): Promise<readonly Result[]> {
  const answer = await sendAfterMove(key, events, at);
  expect(answer).toMatchObject({ status: 200 });
  return answer.body.results as readonly Result[];
}

interface Stored {
  readonly months: Readonly<Record<string, number>>;
  readonly events: Readonly<Record<string, number>>;
  readonly claims: number;
}

/** Reads the use of each month, the events by the month in which they happened, and the claims. */
async function storedOf({ licenseUuid }: IssuedKey): Promise<Stored> {
  const [row] = await service.database.query<Stored>(
    (sql) => sql`
      select (select coalesce(json_object_agg(to_char(month, 'YYYY-MM'), used order by month), '{}') from usage
               where license_id = ${licenseUuid}::uuid) as months,
             (select coalesce(json_object_agg(month, count order by month), '{}') from (
                select to_char(coalesce(occurred_at, received_at) at time zone 'UTC', 'YYYY-MM') as month, count(*)
                  from events where license_id = ${licenseUuid}::uuid and event_type = 'inference' group by 1) as e
             ) as events,
             (select count(*) from claims where key_id = ${licenseUuid}::uuid) as claims`,
  );
  if (row === undefined) throw new Error("No counts");
  return row;
}

describe("POST /v1/analytics/batch", () => {
  test("counts each event in the month in which it happened, and answers them in their order", async () => {
    const key = await service.issue({ monthlyLimit: 10 });
    const events = [inference(NOVEMBER), inference(OCTOBER), inference("2026-11-03T08:59:59Z")];
    const results = await resultsOf(key, events);
    expect(results).toMatchObject([
      { logged: true, month: "2026-11" },
      { logged: true, month: "2026-10", quota: { used: 1, remaining: 9 } },
      { logged: true, month: "2026-11" },
    ]);
    // Each day has a statement of its own, and two of them may run at the same time.
    expect([results[0], results[2]].map((each) => each?.quota?.used).toSorted()).toEqual([1, 2]);
    const months = { "2026-10": 1, "2026-11": 2 };
    expect(await storedOf(key)).toEqual({ months, events: months, claims: 3 });
    const refreshed = await call(service, ENDPOINTS.refresh, key.apiKey);
    expect(refreshed.body.quota).toMatchObject({ used: 2, remaining: 8 });
  });

  test("writes the day on which an event happened", async () => {
    const key = await service.issue();
    await resultsOf(key, [...many(2, OCTOBER), ...many(3, "2026-10-28T10:00:00Z")]);
    const [row] = await service.database.query<{ days: number[] }>(
      (sql) => sql`select to_json(by_day) as days from usage where license_id = ${key.licenseUuid}::uuid`,
    );
    expect([row?.days[27], row?.days[30], row?.days.reduce((sum, one) => sum + one)]).toEqual([3, 2, 5]);
  });

  test("stores a time ahead as now, also at the end of a month, so that no event uses a month that has not begun", async () => {
    await using late = await startTestService({ clock: createTestClock("2026-11-30T23:58:00Z") });
    const key = await late.issue({ monthlyLimit: 1 });
    const [first, second] = await resultsOf(key, many(2, "2026-12-01T00:01:00Z"), late);
    expect(first).toMatchObject({ logged: true, month: "2026-11" });
    expect(second).toMatchObject({ logged: false, code: "QUOTA_EXCEEDED", month: "2026-11" });
    const single = await call(late, ENDPOINTS.analyticsLog, key.apiKey);
    expectRefusal(single, 429, "QUOTA_EXCEEDED");
    const validated = await call(late, ENDPOINTS.validate, key.apiKey);
    expectRefusal(validated, 429, "QUOTA_EXCEEDED");
  });

  test("knows an event whose time was ahead when it is sent again, also when the next month has begun", async () => {
    const clock = createTestClock("2026-11-30T23:58:00Z", { stands: true });
    await using late = await startTestService({ clock });
    const key = await late.issue();
    const event = inference("2026-12-01T00:01:00Z");
    const [first] = await resultsOf(key, [event], late);
    for (const ms of [0, 60_000, 120_000, 3_600_000]) {
      await late.advance(ms);
      const [again] = await resultsOf(key, [event], late);
      expect(again).toMatchObject({
        ...{ logged: true, event_id: first?.event_id ?? "", month: "2026-11" },
        quota: { used: 1 },
      });
    }
    const [row] = await late.database.query<{ months: string[] }>(
      (sql) => sql`select json_agg(to_char(month, 'YYYY-MM') || ' ' || used) as months from usage`,
    );
    expect(row?.months).toEqual(["2026-11 1"]);
  });

  test("refuses what exceeds the limit of either month, event by event, and stores the rest", async () => {
    const key = await service.issue({ monthlyLimit: 3 });
    const results = await resultsOf(key, [...many(5, OCTOBER), ...many(2, NOVEMBER)]);
    expect(results.map(({ logged }) => logged)).toEqual([true, true, true, false, false, true, true]);
    expect(results[4]).toMatchObject({
      code: "QUOTA_EXCEEDED",
      month: "2026-10",
      quota: { used: 3, remaining: 0 },
    });
    expect(results[6]).toMatchObject({ month: "2026-11", quota: { used: 2, remaining: 1 } });
    const months = { "2026-10": 3, "2026-11": 2 };
    expect(await storedOf(key)).toEqual({ months, events: months, claims: 5 });
  });

  test("charges a month that is over under the limit that the license has now", async () => {
    const key = await service.issue({ monthlyLimit: 1 });
    await resultsOf(key, many(1, OCTOBER));
    await updateLicense(service, key, { monthly_limit: 2 });
    await service.service.directory.beat();
    const results = await resultsOf(key, many(2, OCTOBER));
    expect(results).toMatchObject([{ logged: true, quota: { used: 2, remaining: 0 } }, { logged: false }]);
  });

  test("leaves the count of the present month alone when it charges the month before", async () => {
    const key = await service.issue({ monthlyLimit: 5 });
    await resultsOf(key, many(2, NOVEMBER));
    // More than in the present month, because a count that is known never goes down.
    await resultsOf(key, many(5, OCTOBER));
    for (const at of [service, other]) {
      const refreshed = await call(at, ENDPOINTS.refresh, key.apiKey);
      expect(refreshed.body.quota).toMatchObject({ used: 2, remaining: 3 });
    }
    expect(await call(service, ENDPOINTS.analyticsLog, key.apiKey)).toMatchObject({ status: 202 });
  });

  test("accepts events without units when the month is used up, and says how it stands", async () => {
    const key = await service.issue({ monthlyLimit: 1 });
    const events = [inference(OCTOBER), inference(OCTOBER, { event_type: "error" })];
    const results = await resultsOf(key, events);
    expect(results[1]).toMatchObject({ logged: true, month: "2026-10", quota: { used: 1, remaining: 0 } });
    const again = await resultsOf(key, [inference(OCTOBER, { event_type: "model_load" })]);
    expect(again[0]).toMatchObject({ logged: true, quota: { used: 1, remaining: 0 } });
  });

  test("counts a repeated batch once, also one that another process stored", async () => {
    const key = await service.issue({ monthlyLimit: 10 });
    const events = [
      ...many(2, OCTOBER),
      ...many(2, NOVEMBER),
      inference(OCTOBER, { event_type: "model_load" }),
    ];
    const first = await resultsOf(key, events);
    const again = await resultsOf(key, events, other);
    expect(again.map(({ event_id: id }) => id)).toEqual(first.map(({ event_id: id }) => id));
    expect(again[0]).toMatchObject({ month: "2026-10", quota: { used: 2, remaining: 8 } });
    const months = { "2026-10": 2, "2026-11": 2 };
    expect(await storedOf(key)).toEqual({ months, events: months, claims: 5 });
  });

  test("counts an event once that comes twice in a batch", async () => {
    const key = await service.issue();
    const event = inference(OCTOBER);
    const [first, second] = await resultsOf(key, [event, event]);
    expect(second?.event_id).toBe(first?.event_id ?? "");
    expect(await storedOf(key)).toMatchObject({ months: { "2026-10": 1 }, claims: 1 });
  });

  test.each([
    ["occurred_at", { occurred_at: NOVEMBER }],
    ["model_name", { model_name: "another" }],
  ])("refuses a known key with another %s, and names the field", async (field, fields) => {
    const key = await service.issue();
    const event = inference(OCTOBER);
    await resultsOf(key, [event]);
    for (const at of [service, other]) {
      const [result] = await resultsOf(key, [{ ...event, ...fields }], at);
      expect(result).toMatchObject({
        logged: false,
        code: "INVALID_REQUEST",
        error: expect.stringContaining(`whose ${field} differs`),
      });
    }
    expect(await storedOf(key)).toMatchObject({ months: { "2026-10": 1 } });
  });

  test("knows an event that was sent alone before, and the other way round", async () => {
    const key = await service.issue();
    const [one, two] = [inference(OCTOBER), inference(OCTOBER)];
    const alone = (event: Sent) =>
      call(service, ENDPOINTS.analyticsLog, key.apiKey, {
        headers: { "Idempotency-Key": String(event.idempotency_key) },
      });
    const first = await alone(one);
    const results = await resultsOf(key, [one, two]);
    // It was charged when it was received.
    expect(results[0]).toMatchObject({ event_id: first.body.event_id, month: "2026-11", quota: { used: 1 } });
    expect(results[1]).toMatchObject({ logged: true, month: "2026-10", quota: { used: 1 } });
    expect((await alone(two)).body.event_id).toBe(results[1]?.event_id);
    expect(await storedOf(key)).toMatchObject({ months: { "2026-10": 1, "2026-11": 1 }, claims: 2 });
  });

  test.each([
    ["without a type", { event_type: null }, "MISSING_EVENT_TYPE", "event_type is required"],
    ["of an unknown type", { event_type: "x" }, "INVALID_REQUEST", "event_type must be one of"],
    ["without a key", { idempotency_key: undefined }, "INVALID_REQUEST", "idempotency_key is required"],
    ["with an empty key", { idempotency_key: "" }, "INVALID_REQUEST", "idempotency_key must be 1 to 255"],
    ["with a key of 256 characters", { idempotency_key: "k".repeat(256) }, "INVALID_REQUEST", "1 to 255"],
    ["without a time", { occurred_at: undefined }, "INVALID_REQUEST", "occurred_at is required"],
    [
      "with a day as its time",
      { occurred_at: "2026-11-01" },
      "INVALID_REQUEST",
      "occurred_at must be an ISO",
    ],
    [
      "with a time without its zone",
      { occurred_at: "2026-11-01T00:00:00" },
      "INVALID_REQUEST",
      "with its zone",
    ],
    ["with a number as its time", { occurred_at: 1_793_000_000 }, "INVALID_REQUEST", "occurred_at must be"],
    [
      "of more than 7 days ago",
      { occurred_at: "2026-10-27T08:59:59.999Z" },
      "INVALID_REQUEST",
      "at most 7 days ago",
    ],
    [
      "of more than 5 minutes ahead",
      { occurred_at: "2026-11-03T09:05:01Z" },
      "INVALID_REQUEST",
      "5 minutes ahead",
    ],
    ["with a duration below 0", { duration_ms: -1 }, "INVALID_REQUEST", "duration_ms must not be negative"],
  ])("refuses an event %s alone", async (_, fields, code, words) => {
    const key = await service.issue();
    const results = await resultsOf(key, [inference(OCTOBER, fields), inference(OCTOBER)]);
    expect(results).toMatchObject([
      { logged: false, code, error: expect.stringContaining(words) },
      { logged: true, quota: { used: 1 } },
    ]);
    expect(results[0]).not.toHaveProperty("quota");
  });

  test.each([[null], ["inference"], [[]], [5]])("refuses %p in place of an event", async (event) => {
    const [result] = await resultsOf(await service.issue(), [event as unknown as Sent]);
    expect(result).toEqual({
      logged: false,
      error: "each of events must be a JSON object",
      code: "INVALID_REQUEST",
    } as Result);
  });

  test.each([
    // On Node the clock does not stand.
    [ON_NODE ? "2026-10-27T09:10:00Z" : "2026-10-27T09:00:00Z"],
    ["2026-11-03T09:05:00Z"],
    ["2026-11-01T00:30:00+01:00"],
  ])("accepts the time %s", async (at) => {
    const [result] = await resultsOf(await service.issue(), [inference(at)]);
    expect(result).toMatchObject({ logged: true });
  });

  test.each([[undefined], [null], [{}], ["x"], [[]], [many(1_001, OCTOBER)]])(
    "refuses a request without a list of 1 to 1,000 events",
    async (events) => {
      const key = await service.issue();
      const answer = await send(key, events);
      expectRefusal(answer, 400, "INVALID_REQUEST");
      expect(answer.body.error).toBe("events must be a list of 1 to 1000 events");
      expect(await storedOf(key)).toEqual({ months: {}, events: {}, claims: 0 });
    },
  );

  test("stores 1,000 events over eight days, exactly up to the limit", async () => {
    const key = await service.issue({ monthlyLimit: 400 });
    const beganMs = Date.parse("2026-10-27T09:00:00Z");
    const events = Array.from({ length: 1_000 }, (_, index) =>
      inference(new Date(beganMs + ((index * 7_919) % 1_000) * 0.168 * HOUR_MS).toISOString()),
    );
    const results = await resultsOf(key, events);
    const logged = (month: string) => results.filter((each) => each.logged && each.month === month).length;
    expect([logged("2026-10"), logged("2026-11")]).toEqual([400, 339]);
    const months = { "2026-10": 400, "2026-11": 339 };
    expect(await storedOf(key)).toEqual({ months, events: months, claims: 739 });
  });

  test("reads a body of up to 1 MiB, and refuses a larger one", async () => {
    const key = await service.issue();
    const filled = (bytes: number) => {
      const fields = { events: [inference(OCTOBER)], api_key: key.apiKey, more: "" };
      const { length } = JSON.stringify(fields);
      return JSON.stringify({ ...fields, more: "x".repeat(bytes - length) });
    };
    const sendText = (body: string) => service.send("/v1/analytics/batch", { method: "POST", body });
    expect(await sendText(filled(1_048_576))).toMatchObject({ status: 200 });
    const answer = await sendText(filled(1_048_577));
    expectRefusal(answer, 413, "PAYLOAD_TOO_LARGE");
    expect(answer.body.error).toBe("The body must have at most 1048576 bytes");
  });

  test("counts its events in the window of single events: all of them, or none with 429", async () => {
    await using narrow = await startTestService({
      on: service.testDatabase,
      clock: createTestClock(BACK, { stands: true }),
      limits: "default",
    });
    const key = await narrow.issue();
    expect(await send(key, many(600, OCTOBER), narrow)).toMatchObject({ status: 200 });
    const refused = await send(key, many(401, OCTOBER), narrow);
    expectRefusal(refused, 429, "RATE_LIMIT_EXCEEDED");
    expect(refused.body.error).toContain("of 1000 there is room for 400 now, and the batch has 401");
    expect(refused.headers.get("Retry-After")).toBe("61");
    expect(await storedOf(key)).toMatchObject({ months: { "2026-10": 600 } });
    expect(await send(key, many(399, OCTOBER), narrow)).toMatchObject({ status: 200 });
    expect(await call(narrow, ENDPOINTS.analyticsLog, key.apiKey)).toMatchObject({ status: 202 });
    expectRefusal(await call(narrow, ENDPOINTS.analyticsLog, key.apiKey), 429, "RATE_LIMIT_EXCEEDED");
    await narrow.advance(61_000);
    expect(await sendAfterMove(key, many(401, OCTOBER), narrow)).toMatchObject({ status: 200 });
  });

  test("gives the room back of a batch that could not be stored", async () => {
    await using narrow = await startTestService({
      on: service.testDatabase,
      clock: createTestClock(BACK, { stands: true }),
      limits: "default",
    });
    const key = await narrow.issue();
    expect(await send(key, many(1, OCTOBER), narrow)).toMatchObject({ status: 200 });
    const events = many(600, OCTOBER);
    await inTransaction(service.testDatabase.address, async (sql) => {
      await sql`select from usage where license_id = ${key.licenseUuid} for update`;
      expectRefusal(await send(key, events, narrow), 503, "SERVICE_UNAVAILABLE");
    });
    expect(await send(key, events, narrow)).toMatchObject({ status: 200 });
    expect(await storedOf(key)).toMatchObject({ months: { "2026-10": 601 }, claims: 601 });
  });

  test("takes at most as many events as the limit of single events allows in a minute", async () => {
    const { limits } = service.config;
    await using narrow = await startTestService({
      on: service.testDatabase,
      clock: createTestClock(BACK),
      config: { limits: { ...limits, analytics: 5 } },
    });
    const key = await narrow.issue();
    const answer = await send(key, many(6, OCTOBER), narrow);
    expect(answer).toMatchObject({ status: 400, body: { error: "events must be a list of 1 to 5 events" } });
    expect(await send(key, many(5, OCTOBER), narrow)).toMatchObject({ status: 200 });
  });

  test("shows operators a refused event as a refusal of its key", async () => {
    const own = await startTestService({ on: service.testDatabase, clock: service.clock });
    const key = await own.issue({ monthlyLimit: 1 });
    await resultsOf(key, many(2, OCTOBER), own);
    await resultsOf(key, many(1, NOVEMBER), own);
    await own.close();
    expect(await listRefusalCounts(service.database, uuidOf(key))).toMatchObject([
      { code: "QUOTA_EXCEEDED", count: 1 },
    ]);
  });

  test("keeps its keys for 8 days, and those of single events for one", async () => {
    const clock = createTestClock(BACK, { stands: true });
    await using own = await startTestService({ clock });
    const key = await own.issue();
    const event = inference("2026-11-03T08:00:00Z");
    const [first] = await resultsOf(key, [event], own);
    await call(own, ENDPOINTS.analyticsLog, key.apiKey, { headers: { "Idempotency-Key": "single" } });
    const upkeep = createTestUpkeep({ ...own, log: silentLog }, ["claims"]);
    const claims = async () => {
      await upkeep.runAll();
      const rows = await own.database.query<{ hasTime: boolean }>(
        (sql) => sql`select occurred_at is not null as "hasTime" from claims`,
      );
      return rows.map(({ hasTime }) => hasTime);
    };
    await own.advance(25 * HOUR_MS);
    expect(await claims()).toEqual([true]);
    const [again] = await resultsOf(key, [event], own);
    expect(again?.event_id).toBe(first?.event_id ?? "");
    await own.advance(7 * DAY_MS - HOUR_MS - 1_000);
    expect(await claims()).toEqual([true]);
    // Older than 7 days: refused although its key is known.
    const [old] = await resultsOf(key, [event], own);
    expect(old).toMatchObject({ logged: false, error: expect.stringContaining("at most 7 days ago") });
    await own.advance(2_000);
    expect(await claims()).toEqual([]);
    await upkeep.stop();
    const [later] = await resultsOf(key, [event], own);
    expect(later).toMatchObject({ logged: false, error: expect.stringContaining("at most 7 days ago") });
  });
});

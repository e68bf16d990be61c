/** Finding the hourly counts, and deleting them after 400 days. */
import { beforeEach, describe, expect, test } from "bun:test";
import { isRefusal } from "../../../src/base/refusal.ts";
import { deleteOldActivity } from "../../../src/usage/activity/delete_old_activity.ts";
import {
  type ActivityQuery,
  addActivity,
  deleteActivityByReason,
  findActivity,
  findEndpointHours,
} from "../../../src/usage/activity/mod.ts";
import { FAILURE_CODES } from "../../../src/wire/mod.ts";
import { createTestClock } from "../../support/clock.ts";
import { useDatabase } from "../../support/use.ts";

const database = useDatabase();
beforeEach(async () => {
  await database.query((sql) => sql`truncate activity_hours, activity_days`);
});

async function insert(...rows: readonly string[]) {
  const hours = rows.map((row) => {
    const [hour = "", endpoint = "", code = "", reason = "", count = ""] = row.split(",");
    return { hourMs: Date.parse(hour), endpoint, code, reason, count: Number(count) };
  });
  await addActivity(database, hours);
}

async function find(query: Partial<ActivityQuery>): Promise<string[] | string> {
  const found = await findActivity(database, {
    from: new Date("2026-11-22T00:00:00Z"),
    to: new Date("2026-11-23T00:00:00Z"),
    by: "code",
    step: "hour",
    ...query,
  });
  if (isRefusal(found)) return found.sentence;
  return found.map(({ at, name, count }) => `${at.toISOString().slice(0, 13)} ${name} ${count}`);
}

describe("findActivity()", () => {
  beforeEach(() =>
    insert(
      "2026-10-31T23:00:00Z,validate,OK,,7",
      "2026-11-21T23:00:00Z,validate,OK,,1",
      "2026-11-22T00:00:00Z,validate,OK,,2",
      "2026-11-22T00:00:00Z,models,OK,,3",
      "2026-11-22T00:00:00Z,validate,INVALID_KEY,revoked,4",
      "2026-11-22T13:00:00Z,refresh,INVALID_KEY,revoked,5",
      "2026-11-22T13:00:00Z,refresh,INVALID_KEY,unknown,6",
      "2026-11-23T00:00:00Z,validate,OK,,8",
    ),
  );

  test("adds the counts of an hour by code, endpoint or reason", async () => {
    expect(await find({ by: "code" })).toEqual([
      "2026-11-22T00 INVALID_KEY 4",
      "2026-11-22T00 OK 5",
      "2026-11-22T13 INVALID_KEY 11",
    ]);
    expect(await find({ by: "endpoint" })).toEqual([
      "2026-11-22T00 models 3",
      "2026-11-22T00 validate 6",
      "2026-11-22T13 refresh 11",
    ]);
    expect(await find({ by: "reason" })).toEqual([
      "2026-11-22T00 revoked 4",
      "2026-11-22T13 revoked 5",
      "2026-11-22T13 unknown 6",
    ]);
  });

  test("counts only refusals by reason, also if answers without an error are marked", async () => {
    await addActivity(database, [
      {
        hourMs: Date.parse("2026-11-22T13:00:00Z"),
        endpoint: "models",
        code: "OK",
        reason: "demo",
        count: 100,
      },
      {
        hourMs: Date.parse("2026-11-22T13:00:00Z"),
        endpoint: "models",
        code: "NOT_FOUND",
        reason: "demo",
        count: 1,
      },
    ]);
    expect(await find({ by: "reason" })).toContain("2026-11-22T13 demo 1");
    expect(await find({ by: "code" })).toContain("2026-11-22T13 OK 100");
    await deleteActivityByReason(database, "demo");
    expect(await find({ by: "code" })).toEqual([
      "2026-11-22T00 INVALID_KEY 4",
      "2026-11-22T00 OK 5",
      "2026-11-22T13 INVALID_KEY 11",
    ]);
  });

  test("adds the hours of a day and of a month, from the beginning of the first one", async () => {
    const from = new Date("2026-11-21T12:34:56Z");
    expect(await find({ by: "endpoint", step: "day", from, to: new Date("2026-11-24") })).toEqual([
      "2026-11-21T00 validate 1",
      "2026-11-22T00 models 3",
      "2026-11-22T00 refresh 11",
      "2026-11-22T00 validate 6",
      "2026-11-23T00 validate 8",
    ]);
    expect(await find({ step: "month", from: new Date("2026-10-15"), to: new Date("2026-11-24") })).toEqual([
      "2026-10-01T00 OK 7",
      "2026-11-01T00 INVALID_KEY 15",
      "2026-11-01T00 OK 14",
    ]);
  });

  test("refuses a span that is empty or too long for its step", async () => {
    const to = new Date("2026-11-23T00:00:00Z");
    const before = (days: number) => new Date(to.getTime() - days * 86_400_000);
    expect(await find({ from: to, to })).toBe("Cannot show activity: from must be before to");
    expect(await find({ from: before(31), to })).toBeArray();
    expect(await find({ from: before(31.01), to })).toBe(
      "Cannot show activity: by hour the span is at most 31 days; choose a longer step",
    );
    expect(await find({ from: before(400.01), to, step: "day" })).toContain("at most 400 days");
    expect(await find({ from: new Date("1000-01-01"), to, step: "month" })).toHaveLength(3);
  });
});

describe("deleteOldActivity()", () => {
  const clock = createTestClock("2026-11-22T10:30:00Z");
  const insertOld = (rows: number) =>
    insert(...Array.from({ length: rows }, (_, n) => `2025-10-17T23:00:00Z,validate,CODE_${n},,1`));
  const left = async () => {
    const found = await database.query<{ code: string }>(
      (sql) => sql`select code from activity_hours union all select code from activity_days`,
    );
    return found.map(({ code }) => code);
  };

  test("deletes the hours and days of 400 days ago and before, in batches", async () => {
    await insertOld(1_500);
    await insert("2025-10-18T00:00:00Z,validate,YOUNG,,1");
    await deleteOldActivity({ database, clock, isStopping: () => false });
    expect(await left()).toEqual(["YOUNG", "YOUNG"]);
  });

  test("stops after a batch when the service stops", async () => {
    await insertOld(1_500);
    let asked = 0;
    await deleteOldActivity({ database, clock, isStopping: () => asked++ > 0 });
    expect(await left()).toHaveLength(500 + 1_500);
  });
});

test("findEndpointHours() counts requests, refusals and failures of each endpoint and hour", async () => {
  await insert(
    "2026-11-22T08:00Z,validate,OK,,80",
    "2026-11-22T08:00Z,validate,INVALID_KEY,unknown,4",
    "2026-11-22T08:00Z,validate,INVALID_KEY,revoked,1",
    "2026-11-22T08:00Z,validate,SERVER_ERROR,,2",
    "2026-11-22T09:00Z,repo_token,NOT_CONFIGURED,,3",
    "2026-11-22T09:00Z,health,UNHEALTHY,,7",
    "2026-11-22T07:00Z,validate,OK,,1000",
    "2026-11-22T10:00Z,validate,OK,,1000",
  );
  const span = { from: new Date("2026-11-22T08:30:00Z"), to: new Date("2026-11-22T10:00:00Z") };
  const found = await findEndpointHours(database, span, FAILURE_CODES);
  expect(found.map(({ at, ...row }) => ({ hour: at.getUTCHours(), ...row }))).toEqual([
    { hour: 9, endpoint: "health", requests: 7, refused: 0, failed: 7 },
    { hour: 9, endpoint: "repo_token", requests: 3, refused: 0, failed: 3 },
    { hour: 8, endpoint: "validate", requests: 87, refused: 5, failed: 2 },
  ]);
});

import { describe, expect, test } from "bun:test";
import { systemClock } from "../../../src/base/clock.ts";
import { newUuid, parseId } from "../../../src/base/ids.ts";
import type { Code } from "../../../src/base/refusal.ts";
import type { Database } from "../../../src/database/mod.ts";
import { createRefusalCounts, listRefusalCounts } from "../../../src/licensing/keys/refusal_counts.ts";
import { createTestClock } from "../../support/clock.ts";
import { issue } from "../../support/issue.ts";
import { until } from "../../support/until.ts";
import { useDatabase } from "../../support/use.ts";

const database = useDatabase();

const QUOTA = { code: "QUOTA_EXCEEDED", reason: undefined } as const;

async function issueKey(): Promise<{ readonly uuid: string }> {
  return { uuid: parseId("key", (await issue(database)).id) ?? "" };
}

/** Makes keys without their own accounts, which is faster than issuing them. */
async function makeKeys(count: number): Promise<{ readonly uuid: string }[]> {
  const { licenseUuid } = await issue(database);
  return await database.query<{ uuid: string }>(
    (sql) => sql`
      insert into keys (id, license_id, hash, hint, mode, created_at)
      select gen_random_uuid(), ${licenseUuid}::uuid, sha256(gen_random_uuid()::text::bytea), 'svc_live_', 'live', now()
        from generate_series(1, ${count}::integer)
      returning id as uuid`,
  );
}

async function countRows(): Promise<number> {
  const [row] = await database.query<{ rows: number }>((sql) => sql`select count(*) as rows from refusals`);
  return row?.rows ?? 0;
}

/** A database that fails while `isAway` is true. It counts its statements. */
function breakable() {
  const control = { isAway: true, statements: 0 };
  const query: Database["query"] = (build, options) => {
    control.statements++;
    return control.isAway ? Promise.reject(new Error("away")) : database.query(build, options);
  };
  return { control, database: { ...database, query } };
}

describe("createRefusalCounts()", () => {
  test("flush() writes one row for each key, code and reason, with the last time and the count", async () => {
    const clock = createTestClock("2026-11-22T09:00:00Z");
    const refusals = createRefusalCounts({ database, clock });
    const [one, other] = [await issueKey(), await issueKey()];
    refusals.note(one, { code: "INVALID_KEY", reason: "suspended" }, "validate");
    refusals.note(one, { code: "INVALID_KEY", reason: "revoked" }, "validate");
    refusals.note(other, QUOTA, "validate");
    expect(await listRefusalCounts(database, one.uuid)).toEqual([]);
    await refusals.flush();
    clock.setWall("2026-11-22T10:00:00Z");
    for (let round = 0; round < 3; round++)
      refusals.note(one, { code: "INVALID_KEY", reason: "suspended" }, "validate");
    await refusals.flush();

    expect(await listRefusalCounts(database, one.uuid)).toEqual([
      { code: "INVALID_KEY", reason: "suspended", lastAt: expect.any(Date), count: 4 },
      { code: "INVALID_KEY", reason: "revoked", lastAt: expect.any(Date), count: 1 },
    ]);
    const [last] = await listRefusalCounts(database, one.uuid);
    expect(last?.lastAt.toISOString()).toStartWith("2026-11-22T10:00:0");
    expect(await listRefusalCounts(database, other.uuid)).toMatchObject([
      { ...QUOTA, reason: null, count: 1 },
    ]);
  });

  test("flush() does not move the last time back when a clock is behind", async () => {
    const key = await issueKey();
    for (const at of ["2026-11-22T10:00:00Z", "2026-11-22T09:00:00Z"]) {
      const refusals = createRefusalCounts({ database, clock: createTestClock(at) });
      refusals.note(key, QUOTA, "validate");
      await refusals.stop();
    }
    const [row] = await listRefusalCounts(database, key.uuid);
    expect([row?.count, row?.lastAt.toISOString().slice(0, 16)]).toEqual([2, "2026-11-22T10:00"]);
  });

  test("note() keeps the endpoint of too many requests, and not that of another refusal", async () => {
    const refusals = createRefusalCounts({ database, clock: systemClock });
    const key = await issueKey();
    for (const endpoint of ["analytics", "analytics", "models"])
      refusals.note(key, { code: "RATE_LIMIT_EXCEEDED", reason: undefined }, endpoint);
    refusals.note(key, QUOTA, "analytics");
    await refusals.flush();
    const rows = await listRefusalCounts(database, key.uuid);
    expect(new Set(rows.map(({ code, reason, count }) => `${code} ${reason} ${count}`))).toEqual(
      new Set(["RATE_LIMIT_EXCEEDED analytics 2", "RATE_LIMIT_EXCEEDED models 1", "QUOTA_EXCEEDED null 1"]),
    );
  });

  test("note() ignores invalid requests and failures of the service", async () => {
    const refusals = createRefusalCounts({ database, clock: systemClock });
    const key = await issueKey();
    const codes: Code[] = ["INVALID_REQUEST", "MISSING_EVENT_TYPE", "SERVICE_UNAVAILABLE", "SERVER_ERROR"];
    for (const code of codes) refusals.note(key, { code, reason: undefined }, "validate");
    await refusals.flush();
    expect(await listRefusalCounts(database, key.uuid)).toEqual([]);
  });

  test("flush() writes no row for a key that does not exist, and the rows of the other keys", async () => {
    const refusals = createRefusalCounts({ database, clock: systemClock });
    const [key, unknown] = [await issueKey(), { uuid: newUuid() }];
    for (const each of [unknown, key]) refusals.note(each, QUOTA, "validate");
    await refusals.flush();
    expect(await listRefusalCounts(database, unknown.uuid)).toEqual([]);
    expect(await listRefusalCounts(database, key.uuid)).toHaveLength(1);
  });

  test("flush() adds counts that could not be written to later counts", async () => {
    const { control, database: away } = breakable();
    const refusals = createRefusalCounts({ database: away, clock: systemClock });
    const key = await issueKey();
    refusals.note(key, QUOTA, "validate");
    refusals.note(key, QUOTA, "validate");
    await refusals.flush();
    refusals.note(key, QUOTA, "validate");
    control.isAway = false;
    await refusals.stop();
    expect(await listRefusalCounts(database, key.uuid)).toMatchObject([{ count: 3 }]);
  });

  test("flush() writes a flood with one statement from bounded memory, also after an outage", async () => {
    const { control, database: away } = breakable();
    const refusals = createRefusalCounts({ database: away, clock: systemClock });
    const keys = await makeKeys(6_000);
    const before = await countRows();
    const noteAll = () => {
      for (const key of keys) refusals.note(key, QUOTA, "validate");
    };
    noteAll();
    await refusals.flush();
    noteAll();
    control.isAway = false;
    await refusals.flush();
    expect([control.statements, (await countRows()) - before]).toEqual([2, 5_000]);
    expect(await listRefusalCounts(database, keys[0]?.uuid ?? "")).toMatchObject([{ count: 2 }]);
    // The keys that did not fit get a row with their next refusal.
    for (const key of keys.slice(5_000)) refusals.note(key, QUOTA, "validate");
    await refusals.flush();
    expect((await countRows()) - before).toBe(6_000);
  });

  test("start() writes at intervals, and tries less often while the database is away", async () => {
    const { control, database: away } = breakable();
    const refusals = createRefusalCounts({ database: away, clock: systemClock, intervalMs: 10 });
    const key = await issueKey();
    await refusals.start();
    refusals.note(key, QUOTA, "validate");
    await until(() => control.statements >= 2);
    const beganMs = performance.now();
    // The tries go by real time.
    await Bun.sleep(300);
    // The pauses double: 40, 80, 160 ms; without that there would be 30 tries.
    const most = 2 + Math.log2(1 + (performance.now() - beganMs) / 40);
    expect(control.statements).toBeLessThanOrEqual(Math.ceil(most) + 1);
    control.isAway = false;
    await until(async () => (await listRefusalCounts(database, key.uuid)).length === 1);
    await refusals.stop();
  });
});

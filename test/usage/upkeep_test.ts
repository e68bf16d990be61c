/** Upkeep: a task that fails is logged and tried again, and does not delay other tasks. */
import { afterEach, beforeEach, describe, expect, setDefaultTimeout, spyOn, test } from "bun:test";
import { deleteOldActivity } from "../../src/activity/mod.ts";
import { systemClock } from "../../src/clock.ts";
import { openDatabase, openSession } from "../../src/database/mod.ts";
import { createLog, silentLog } from "../../src/log.ts";
import { deleteEnded } from "../../src/operators/mod.ts";
import { createSweep } from "../../src/usage/_sweep.ts";
import { countUse, createUpkeep, type Upkeep } from "../../src/usage/mod.ts";
import { makeRandomCustomers } from "../figures/random_customers.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { until } from "../support/until.ts";

setDefaultTimeout(30_000);

let server: TestDatabase;
let upkeep: Upkeep;
let lines: string[];

beforeEach(async () => {
  server = await createTestDatabase();
  lines = [];
  const log = createLog({ format: "text", clock: systemClock, write: (line) => void lines.push(line) });
  upkeep = createUpkeep({
    address: server.address,
    clock: systemClock,
    log,
    cleanOperators: deleteEnded,
    cleanActivity: deleteOldActivity,
    countUse,
  });
});
afterEach(async () => {
  await upkeep.stop();
  await server.close();
});

async function insertClaims(age: string, rows: number): Promise<void> {
  await server.database.query(
    (sql) => sql`
      insert into claims (key_id, claim, event_hash, event_id, claimed_at)
      select gen_random_uuid(), sha256('claim'), sha256('event'), gen_random_uuid(), now() - ${age}::interval
        from generate_series(1, ${rows})`,
  );
}

async function insertChange(age: string): Promise<void> {
  await server.database.query(
    (sql) => sql`
      insert into usage_changes (writer, written_at, month, license_ids, used)
      values (gen_random_uuid(), now() - ${age}::interval, '2026-11-01', '{}', '{}')`,
  );
}

async function count(table: string): Promise<number | undefined> {
  const [row] = await server.database.query<{ rows: number }>(
    (sql) => sql`select count(*) as rows from ${sql(table)}`,
  );
  return row?.rows;
}

describe("createUpkeep()", () => {
  test("start() plans no task when it is stopped meanwhile", async () => {
    const timers = spyOn(globalThis, "setTimeout");
    const started = upkeep.start();
    await upkeep.stop();
    await started;
    const pauses = timers.mock.calls.map(([, ms]) => ms);
    timers.mockRestore();
    // The pauses before the first round of each task.
    for (const ms of [15_000, 30_000]) expect(pauses).not.toContain(ms);
  });

  test("stop() in the middle of a count lets another process count at once", async () => {
    await makeRandomCustomers(server.database, { licenses: 50, now: systemClock.now() });
    const busy = "select busy_until as busy from usage_days_progress where busy_until is not null";
    const session = openSession(server.address, { statementTimeoutMs: 0 });
    await session.connect();
    let cleaned: Promise<void> | undefined;
    await session.transaction(async (sql) => {
      await sql`lock table licenses in access exclusive mode`;
      cleaned = upkeep.clean();
      await until(async () => (await server.database.query((sql) => sql.unsafe(busy))).length > 0);
    });
    await upkeep.stop();
    await cleaned;
    await session.close();
    expect([...(await server.database.query((sql) => sql.unsafe(busy)))]).toEqual([]);
  });

  test("clean() deletes all claims older than 24 hours, in any order in the table, and no other", async () => {
    for (const age of ["25 hours", "23 hours", "24 hours 1 minute", "1 minute"]) {
      await insertClaims(age, 10_000);
    }
    await upkeep.clean();
    expect(await count("claims")).toBe(20_000);
    const old = await server.database.query(
      (sql) => sql`select from claims where claimed_at < now() - interval '24 hours'`,
    );
    expect(old).toEqual([]);
  });

  test("clean() keeps changes to counts for one minute", async () => {
    await insertChange("59 seconds");
    await insertChange("61 seconds");
    await upkeep.clean();
    expect(await count("usage_changes")).toBe(1);
  });

  test("clean() deletes from one table while the other fails, and logs the reason once", async () => {
    const { database } = server;
    await insertClaims("25 hours", 10);
    await insertChange("61 seconds");
    await database.query((sql) => sql`alter table claims rename to away`);
    for (let round = 0; round < 3; round++) await upkeep.clean();
    expect(await count("usage_changes")).toBe(0);
    expect(upkeep.stats().failures).toMatchObject({ claims: 3, usage_changes: 0 });
    expect(lines).toEqual([
      expect.stringMatching(
        /warn {2}Could not delete .* task=claims reason="relation \\"claims\\" does not exist"/,
      ),
    ]);

    await database.query((sql) => sql`alter table away rename to claims`);
    await upkeep.clean();
    expect(await count("claims")).toBe(0);
    expect(lines.splice(0)[1]).toContain("An upkeep task that had failed has succeeded task=claims");
    await database.query((sql) => sql`alter table claims rename to away`);
    await upkeep.clean();
    expect(lines).toHaveLength(1);
    expect(upkeep.stats().failures).toMatchObject({ claims: 4 });
  });
});

test("clean() runs the upkeep of operators and activity with the time of now, and counts their failures", async () => {
  const calls: Date[] = [];
  const failAtFirst = async (_: unknown, { now }: { readonly now: Date }) => {
    calls.push(now);
    if (calls.length <= 2) throw new Error("no such table");
  };
  const failing = createUpkeep({
    address: server.address,
    clock: systemClock,
    log: silentLog,
    cleanOperators: failAtFirst,
    cleanActivity: failAtFirst,
    countUse,
  });
  const beganMs = Date.now();
  await failing.clean();
  expect(failing.stats().failures).toMatchObject({ operators: 1, activity: 1, claims: 0 });
  await failing.clean();
  await failing.stop();
  expect(failing.stats().failures).toMatchObject({ operators: 1, activity: 1 });
  expect(calls).toHaveLength(4);
  for (const now of calls) expect(now.getTime()).toBeWithin(beganMs, Date.now() + 1);
});

test("createSweep() makes batches smaller until they fit the deadline", async () => {
  await insertClaims("25 hours", 400);
  await server.database.query((sql) =>
    sql
      .unsafe(`
      create function linger() returns trigger language plpgsql
        as $$ begin perform pg_sleep(0.002); return old; end $$;
      create trigger linger before delete on claims for each row execute function linger()`)
      .simple(),
  );
  const database = openDatabase(server.address, { clock: systemClock, log: silentLog, deadlineMs: 700 });
  const sweep = createSweep({
    database,
    clock: systemClock,
    table: "claims",
    isOld: (sql) => sql`claimed_at < now() - interval '24 hours'`,
    isStopping: () => false,
  });
  const failures: unknown[] = [];
  for (let round = 0; round < 4 && (await count("claims")) !== 0; round++) {
    await sweep().catch((error) => failures.push(error));
  }
  expect(failures).not.toEqual([]);
  expect(await count("claims")).toBe(0);
  await database.close();
});

/** The upkeep of usage: old claims and changes to counts are deleted, and a stopped count lets others count. */
import { describe, expect, test } from "bun:test";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import { openDatabase, openSession } from "../../src/database/mod.ts";
import { createSweep } from "../../src/usage/_sweep.ts";
import { createTestDatabase } from "../support/database.ts";
import { until } from "../support/until.ts";
import { createTestUpkeep } from "../support/upkeep.ts";
import { useForEach } from "../support/use.ts";
import { makeRandomCustomers } from "./figures/random_customers.ts";

const server = useForEach(createTestDatabase);
const upkeep = useForEach(async () => {
  const options = { address: server.address, clock: systemClock, log: silentLog };
  const made = createTestUpkeep(options, ["claims", "usage_changes", "usage_days"]);
  return { ...made, close: made.stop };
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

describe("createUsageUpkeep()", () => {
  test("stop() in the middle of a count lets another process count at once", async () => {
    await makeRandomCustomers(server.database, { licenses: 50, now: systemClock.now() });
    const busy = "select busy_until as busy from usage_days_progress where busy_until is not null";
    const session = openSession(server.address, { statementTimeoutMs: 0 });
    await session.connect();
    let cleaned: Promise<void> | undefined;
    await session.transaction(async (sql) => {
      await sql`lock table licenses in access exclusive mode`;
      cleaned = upkeep.runAll();
      await until(async () => (await server.database.query((sql) => sql.unsafe(busy))).length > 0);
    });
    await upkeep.stop();
    await cleaned;
    await session.close();
    expect([...(await server.database.query((sql) => sql.unsafe(busy)))]).toEqual([]);
  });

  test("deletes all claims older than 24 hours, in any order in the table, and no other", async () => {
    for (const age of ["25 hours", "23 hours", "24 hours 1 minute", "1 minute"]) {
      await insertClaims(age, 10_000);
    }
    await upkeep.runAll();
    expect(await count("claims")).toBe(20_000);
    const old = await server.database.query(
      (sql) => sql`select from claims where claimed_at < now() - interval '24 hours'`,
    );
    expect(old).toEqual([]);
  });

  test("keeps changes to counts for one minute", async () => {
    // A busy machine may need many seconds for the next lines.
    await insertChange("20 seconds");
    await insertChange("61 seconds");
    await upkeep.runAll();
    expect(await count("usage_changes")).toBe(1);
  });
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
  const sweep = createSweep("claims", (sql) => sql`claimed_at < now() - interval '24 hours'`);
  const context = { database, clock: systemClock, isStopping: () => false };
  const failures: unknown[] = [];
  for (let round = 0; round < 4 && (await count("claims")) !== 0; round++) {
    await sweep(context).catch((error) => failures.push(error));
  }
  expect(failures).not.toEqual([]);
  expect(await count("claims")).toBe(0);
  await database.close();
});

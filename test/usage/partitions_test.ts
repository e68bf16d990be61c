import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { openSession } from "../../src/database/mod.ts";
import { newUuid } from "../../src/ids.ts";
import { createLog } from "../../src/log.ts";
import { commitEvents, createPartitions } from "../../src/usage/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { usageEvent } from "../support/events.ts";

let server: TestDatabase;

beforeEach(async () => {
  server = await createTestDatabase();
});
afterEach(() => server.close());

/** Makes the partitions as a service that starts then; gives what it warned of. */
async function startAt(at: string): Promise<string[]> {
  const clock = createTestClock(at);
  const warnings: string[] = [];
  const log = createLog({ format: "text", clock, write: (line) => void warnings.push(line) });
  const partitions = createPartitions({ database: server.database, clock, log });
  await partitions.start();
  partitions.stop();
  return warnings;
}

/** Stores an event of that day; its UUID. */
async function commit(day: string): Promise<string> {
  const event = usageEvent({ type: "error", receivedAtMs: Date.parse(day) });
  await commitEvents(server.database, [event], { processUuid: newUuid(), deadlineMs: 2_000 });
  return event.uuid;
}

/** Stores an event of that day and tells which table holds it. */
async function store(day: string): Promise<string | undefined> {
  return await tableOf(await commit(day));
}

async function tableOf(uuid: string): Promise<string | undefined> {
  const [row] = await server.database.query<{ table: string }>(
    (sql) => sql`select tableoid::regclass::text as table from events where id = ${uuid}::uuid`,
  );
  return row?.table;
}

describe("createPartitions()", () => {
  test("start() makes this month's and the next two, and other months share one", async () => {
    expect(await startAt("2026-11-20T12:00:00Z")).toEqual([]);
    expect(await store("2026-11-01T00:00:00Z")).toBe("events_2026_11");
    expect(await store("2026-11-30T23:59:59.999Z")).toBe("events_2026_11");
    expect(await store("2026-12-01T00:00:00Z")).toBe("events_2026_12");
    expect(await store("2027-01-31T23:59:59.999Z")).toBe("events_2027_01");
    expect(await store("2027-02-01T00:00:00Z")).toBe("events_elsewhen");
    expect(await store("2026-10-31T23:59:59.999Z")).toBe("events_elsewhen");
    expect(await store("2199-06-15")).toBe("events_elsewhen");
  });

  test("start() leaves the index of a month's first events to vacuum, like that of all others", async () => {
    await startAt("2026-11-20T12:00:00Z");
    await commit("2026-11-20T12:00:00Z");
    const [row] = await server.database.query<{ made: number }>(
      (sql) => sql`
        select sum(brin_summarize_range(indexrelid, 0))::integer as made
          from pg_index
          join pg_class on pg_class.oid = indexrelid
         where indrelid = 'events_2026_11'::regclass and relam = (select oid from pg_am where amname = 'brin')`,
    );
    expect(row?.made).toBe(1);
  });

  test("start() by several processes, and again later, is harmless", async () => {
    const at = "2026-11-20T12:00:00Z";
    expect((await Promise.all([startAt(at), startAt(at), startAt(at)])).flat()).toEqual([]);
    expect(await startAt("2026-12-02T00:00:00Z")).toEqual([]);
    expect(await store("2027-02-15T00:00:00Z")).toBe("events_2027_02");
  });

  test("start() takes over the events that came before their month's table was there", async () => {
    const event = await commit("2026-12-24T18:00:00Z");
    expect(await tableOf(event)).toBe("events_elsewhen");
    expect(await startAt("2026-11-20T12:00:00Z")).toEqual([]);
    expect(await tableOf(event)).toBe("events_2026_12");
  });

  test("start() gives up after a second behind a backup's lock, and events go on being stored", async () => {
    await startAt("2026-10-05T12:00:00Z");
    const backup = openSession(server.address, { statementTimeoutMs: 10_000 });
    await backup.transaction(async (sql) => {
      await sql`lock table events, events_elsewhen in access share mode`;
      const began = performance.now();
      let isStarting = true;
      const starting = startAt("2026-11-20T12:00:00Z").finally(() => {
        isStarting = false;
      });
      await Bun.sleep(200);
      await commit("2026-11-20T12:00:00Z");
      expect(isStarting).toBe(true);
      expect(await starting).toHaveLength(1);
      expect(performance.now() - began).toBeLessThan(2_000);
    });
    await backup.close();
    expect(await startAt("2026-11-20T12:00:00Z")).toEqual([]);
    expect(await store("2027-01-01T00:00:00Z")).toBe("events_2027_01");
  });

  test("usage_changes keeps a minute of rows", async () => {
    const write = (age: string) =>
      server.database.query(
        (sql) => sql`
          insert into usage_changes (writer, written_at, month, license_ids, used)
          values (gen_random_uuid(), now() - ${age}::interval, '2026-11-01', '{}', '{}')`,
      );
    await write("59 seconds");
    await write("61 seconds");
    const partitions = createPartitions({
      database: server.database,
      clock: createTestClock(),
      log: createLog({ format: "text", clock: createTestClock(), write: () => {} }),
    });
    await partitions.clean();
    const [row] = await server.database.query((sql) => sql`select count(*) as kept from usage_changes`);
    expect(row).toEqual({ kept: 1 });
  });
});

import { describe, expect, test } from "bun:test";
import { newUuid } from "../../src/base/ids.ts";
import { silentLog } from "../../src/base/log.ts";
import { commitEvents } from "../../src/usage/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { createTestDatabase } from "../support/database.ts";
import { MUCH_ROOM, usageEvent } from "../support/events.ts";
import { inTransaction } from "../support/in_transaction.ts";
import { until } from "../support/until.ts";
import { createTestUpkeep, HOURLY_TASKS } from "../support/upkeep.ts";
import { useForEach } from "../support/use.ts";

const server = useForEach(createTestDatabase);

let warnings: string[];

function upkeepAt(at: string) {
  const clock = createTestClock(at);
  warnings = [];
  const log = { ...silentLog, warn: (message: string) => void warnings.push(message) };
  return createTestUpkeep({ address: server.address, clock, log }, HOURLY_TASKS);
}

/** Makes the partitions like a service that starts at that time. Returns its warnings. */
async function startAt(at: string): Promise<string[]> {
  const upkeep = upkeepAt(at);
  await upkeep.start();
  await upkeep.stop();
  return warnings;
}

/** Runs the hourly upkeep at that time. Returns its warnings. */
async function tidyAt(at: string): Promise<string[]> {
  const upkeep = upkeepAt(at);
  await upkeep.runAll();
  await upkeep.stop();
  return warnings;
}

/** Inserts events of November, for which there is no partition. */
async function insertLate(count: number): Promise<void> {
  await server.database.query(
    (sql) => sql`
      insert into events (id, received_at, key_id, license_id, event_type, success)
      select gen_random_uuid(), '2026-11-01'::timestamptz + number * interval '1 second', gen_random_uuid(),
             gen_random_uuid(), 'error', true
        from generate_series(1, ${count}) as number`,
  );
}

/** Stores an event of that day, and returns its UUID. */
async function commit(day: string): Promise<string> {
  const event = usageEvent({ type: "error", receivedAtMs: Date.parse(day) });
  await commitEvents(server.database, [event], {
    processUuid: newUuid(),
    textBounds: MUCH_ROOM,
    deadlineMs: 2_000,
  });
  return event.uuid;
}

/** Stores an event of that day, and returns the name of the table that contains it. */
async function store(day: string): Promise<string | undefined> {
  return await tableOf(await commit(day));
}

async function tableOf(uuid: string): Promise<string | undefined> {
  const [row] = await server.database.query<{ table: string }>(
    (sql) => sql`select tableoid::regclass::text as table from events where id = ${uuid}::uuid`,
  );
  return row?.table;
}

describe("createUsageUpkeep()", () => {
  test("start() makes partitions for this month and the next two, and other months share one", async () => {
    expect(await startAt("2026-11-20T12:00:00Z")).toEqual([]);
    expect(await store("2026-11-01T00:00:00Z")).toBe("events_2026_11");
    expect(await store("2026-11-30T23:59:59.999Z")).toBe("events_2026_11");
    expect(await store("2026-12-01T00:00:00Z")).toBe("events_2026_12");
    expect(await store("2027-01-31T23:59:59.999Z")).toBe("events_2027_01");
    expect(await store("2027-02-01T00:00:00Z")).toBe("events_elsewhen");
    expect(await store("2026-10-31T23:59:59.999Z")).toBe("events_elsewhen");
    expect(await store("2199-06-15")).toBe("events_elsewhen");
  });

  test("start() lets vacuum build the index of a month's first events, as for all other events", async () => {
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

  test("start() has vacuum read the events of a month often, also in a partition of an earlier version", async () => {
    await startAt("2026-11-20");
    const read = () =>
      server.database.query<{ name: string; settings: string[] | null }>(
        (sql) => sql`
          select relname as name, to_json(reloptions) as settings
            from pg_class join pg_inherits on inhrelid = oid where inhparent = 'events'::regclass order by 1`,
      );
    const made = await read();
    expect(made.map(({ settings }) => settings?.length ?? 0)).toEqual([2, 2, 2, 0]);
    await server.database.query(
      (sql) => sql`
        alter table events_2026_11 reset (autovacuum_vacuum_insert_scale_factor, autovacuum_vacuum_insert_threshold)`,
    );
    await startAt("2026-11-20");
    expect(await read()).toEqual(made);
  });

  test("start() works in several processes at once, and again later", async () => {
    const at = "2026-11-20T12:00:00Z";
    expect((await Promise.all([startAt(at), startAt(at), startAt(at)])).flat()).toEqual([]);
    expect(await startAt("2026-12-02T00:00:00Z")).toEqual([]);
    expect(await store("2027-02-15T00:00:00Z")).toBe("events_2027_02");
  });

  test("tidy() moves events of any month that arrived before their month had a table", async () => {
    const days = ["2019-02-03", "2026-11-20", "2026-12-24T18:00:00Z", "2199-06-15"];
    const events = await Promise.all(days.map(commit));
    expect(await Promise.all(events.map(tableOf))).toEqual(days.map(() => "events_elsewhen"));
    await startAt("2026-11-20T12:00:00Z");
    // A start does not wait for moves, however many there are.
    expect(await Promise.all(events.map(tableOf))).toEqual(days.map(() => "events_elsewhen"));
    expect(await tidyAt("2026-11-20T12:00:00Z")).toEqual([]);
    expect(await Promise.all(events.map(tableOf))).toEqual([
      "events_2019_02",
      "events_2026_11",
      "events_2026_12",
      "events_elsewhen",
    ]);
  });

  test("tidy() moves no events into a table that an operator detached", async () => {
    await startAt("2026-08-20");
    await server.database.query((sql) => sql`alter table events detach partition events_2026_08`);
    const event = await commit("2026-08-05");
    expect(await tidyAt("2026-11-20")).toEqual([]);
    expect(await tableOf(event)).toBe("events_elsewhen");
  });

  test("tidy() moves events while others are stored, and readers see each event once", async () => {
    const late = 30_000;
    await insertLate(late);
    let stored = 0;
    let isOver = false;
    let slowestMs = 0;
    const counts: [before: number, seen: number, after: number][] = [];
    const writer = (async () => {
      for (; !isOver; stored++) {
        const beganMs = performance.now();
        await commit("2026-11-20T12:00:00Z");
        slowestMs = Math.max(slowestMs, performance.now() - beganMs);
      }
    })();
    const reader = async (where: string) => {
      while (!isOver) {
        const before = stored;
        const [row] = await server.database.query<{ seen: number }>((sql) =>
          sql.unsafe(`select count(*) as seen from events ${where}`),
        );
        counts.push([before + late, row?.seen ?? 0, stored + 1 + late]);
      }
    };
    const readers = [reader(""), reader("where received_at >= '2026-11-01' and received_at < '2026-12-01'")];
    await until(() => stored > 20);
    const tidiedMs = performance.now();
    expect(await tidyAt("2026-11-20T12:00:00Z")).toEqual([]);
    const tookMs = performance.now() - tidiedMs;
    const storedThen = stored;
    await until(() => stored > storedThen + 20);
    isOver = true;
    await Promise.all([writer, ...readers]);
    expect(counts.filter(([before, seen, after]) => seen < before || seen > after)).toEqual([]);
    expect(counts.length).toBeGreaterThan(20);
    // On a busy machine everything takes longer, but no event waits for the whole move.
    expect(slowestMs).toBeLessThan(Math.max(1_000, tookMs / 2));
    const left = await server.database.query((sql) => sql`select from only events_elsewhen`);
    expect(left).toEqual([]);
  });

  test("tidy() waits for readers of the events, without blocking new events", async () => {
    await startAt("2026-12-01T12:00:00Z");
    await insertLate(1_000);
    let slowestMs = 0;
    let isOver = false;
    let tidying: Promise<string[]> = Promise.resolve([]);
    await inTransaction(server.address, async (sql) => {
      // The reader works like a backup: it has one snapshot, and its events must not move.
      await sql`set transaction isolation level repeatable read, read only`;
      await sql`lock table events in access share mode`;
      const count = async () =>
        (await sql`select count(*) as seen from events where received_at < '2026-12-01'`)[0];
      expect(await count()).toEqual({ seen: 1_000 });
      tidying = tidyAt("2026-11-20T12:00:00Z").finally(() => {
        isOver = true;
      });
      for (const untilMs = performance.now() + 2_500; performance.now() < untilMs; ) {
        const beganMs = performance.now();
        await commit("2026-11-20T12:00:00Z");
        slowestMs = Math.max(slowestMs, performance.now() - beganMs);
        await Bun.sleep(20);
      }
      expect(await count()).toEqual({ seen: 1_000 });
      expect(isOver).toBe(false);
    });
    expect(await tidying).toEqual([]);
    // It would be all the time for which the reader reads.
    expect(slowestMs).toBeLessThan(2_000);
    const event = await commit("2026-11-20T12:00:00Z");
    expect(await tableOf(event)).toBe("events_2026_11");
    const left = await server.database.query((sql) => sql`select from only events_elsewhen`);
    expect(left).toEqual([]);
  });

  test("stop() cancels a waiting move, also on the server", async () => {
    await startAt("2026-12-01T12:00:00Z");
    await insertLate(1_000);
    await inTransaction(server.address, async (sql) => {
      await sql`lock table events in access share mode`;
      const upkeep = upkeepAt("2026-11-20T12:00:00Z");
      const tidied = upkeep.runAll();
      const moving = async () => {
        const [row] = await server.database.query<{ moving: number }>(
          (sql) => sql`
            select count(*) as moving from pg_stat_activity
             where datname = current_database() and query like '%events_2026_11%' and state = 'active'
               and pid <> pg_backend_pid()`,
        );
        return row?.moving;
      };
      await until(async () => (await moving()) === 1);
      const beganMs = performance.now();
      await upkeep.stop();
      await tidied;
      expect(performance.now() - beganMs).toBeLessThan(5_000);
      await until(async () => (await moving()) === 0);
      expect(upkeep.stats().failures.late_events).toBe(0);
    });
  });

  test("start() gives up after waiting a second for a backup's lock, without blocking new events", async () => {
    await startAt("2026-10-05T12:00:00Z");
    await inTransaction(server.address, async (sql) => {
      await sql`lock table events, events_elsewhen in access share mode`;
      let hasCommitted = false;
      // On a busy machine, the commit may take longer than the start waits.
      for (let attempt = 0; attempt < 5 && !hasCommitted; attempt++) {
        let isStarting = true;
        const starting = startAt("2026-11-20T12:00:00Z").finally(() => {
          isStarting = false;
        });
        // The start waits for the lock after this pause. Only the server knows that it waits.
        await Bun.sleep(200);
        await commit("2026-11-20T12:00:00Z");
        hasCommitted = isStarting;
        expect(await starting).toHaveLength(1);
      }
      expect(hasCommitted).toBe(true);
    });
    expect(await startAt("2026-11-20T12:00:00Z")).toEqual([]);
    expect(await store("2027-01-01T00:00:00Z")).toBe("events_2027_01");
  });
});

import { describe, expect, test } from "bun:test";
import { type Log, silentLog } from "../../src/base/log.ts";
import { type Database, DatabaseUnavailable, openDatabase, type Sql } from "../../src/database/mod.ts";
import { createTestClock, type TestClock } from "../support/clock.ts";
import { type Fault, type FaultyProxy, startFaultyProxy } from "../support/faulty_proxy.ts";
import { shortest } from "../support/shortest.ts";
import { until } from "../support/until.ts";
import { useTestDatabase } from "../support/use.ts";

const DEADLINE_MS = 400;
/** The delay that a busy machine may add to a timer. */
const GRACE_MS = 1_000;

const server = useTestDatabase({ empty: true });

describe("openDatabase()", () => {
  const faults: Fault[] = ["stalled", "closing", "half_open"];

  test.concurrent.each(faults)("openDatabase() settles every query at its deadline: %s", async (fault) => {
    const { database, proxy, close } = await openThroughProxy();
    await untilAnswered(database);
    proxy.set(fault);
    const outcomes = await Promise.all(Array.from({ length: 40 }, () => timed(ask(database))));
    for (const { error, tookMs } of outcomes) {
      expect(error).toBeInstanceOf(DatabaseUnavailable);
      expect(tookMs).toBeLessThan(DEADLINE_MS + GRACE_MS);
    }
    await close();
  });

  test.concurrent.each(faults)(
    "openDatabase() answers again within 2 s of the end of a fault: %s",
    async (fault) => {
      const { database, proxy, close } = await openThroughProxy();
      await ask(database);
      const recover = async () => {
        proxy.set(fault);
        for (let i = 0; i < 3; i++) await timed(ask(database));
        proxy.set("none");
        return await untilAnswered(database);
      };
      expect(await shortest(2_000, recover)).toBeLessThan(2_000);
      await close();
    },
  );

  test("openDatabase() connects seldom to a server that closes each connection", async () => {
    const { database, proxy, close } = await openThroughProxy({ maxConnections: 2 });
    proxy.set("closing");
    const before = proxy.stats().accepted;
    await Promise.all(Array.from({ length: 5 }, () => timed(ask(database))));
    // Each of the two pools may try four times in a quarter of a second.
    expect(proxy.stats().accepted - before).toBeLessThanOrEqual(20);
    await close();
  });

  test("openDatabase() leaves no connection open, not even one of a replaced pool", async () => {
    const { database, proxy, close } = await openThroughProxy();
    await untilAnswered(database);
    proxy.set("stalled");
    await timed(ask(database));
    await timed(ask(database));
    expect(database.stats().poolsReplaced).toBeGreaterThan(0);
    proxy.set("none");
    await ask(database);
    await database.close();
    await until(() => proxy.stats().open === 0);
    await close();
  });

  test("openDatabase() warns once about replaced connections until a statement is answered", async () => {
    const warnings: string[] = [];
    const log = { ...silentLog, warn: (message: string) => void warnings.push(message) };
    const { database, proxy, clock, close } = await openThroughProxy({ log });
    for (const told of [1, 2]) {
      await ask(database);
      proxy.set("stalled");
      const { poolsReplaced } = database.stats();
      for (let i = 0; i < 3; i++) {
        await timed(ask(database));
        clock.advance(600);
      }
      expect(database.stats().poolsReplaced - poolsReplaced).toBe(3);
      expect(warnings).toHaveLength(told);
      proxy.set("none");
      await untilAnswered(database);
    }
    await close();
  });

  test("openDatabase() replaces its connections at most twice a second", async () => {
    const { database, proxy, clock, close } = await openThroughProxy({ stands: true, deadlineMs: 100 });
    // On a busy machine the first connection takes longer than the deadline of the others.
    await database.query((sql) => sql`select 1`, { deadlineMs: 10_000 });
    proxy.set("stalled");
    for (const [pauseMs, replaced] of [
      [0, 1],
      [499, 1],
      [1, 2],
    ] as const) {
      clock.advance(pauseMs);
      await timed(ask(database));
      expect(database.stats().poolsReplaced).toBe(replaced);
    }
    await close();
  });

  test("openDatabase() lets the server compile no plan, which would take longer than the statement", async () => {
    const { database, close } = await openThroughProxy();
    const rows = await database.query((sql) => sql`select current_setting('jit') as jit`);
    expect(rows).toEqual([{ jit: "off" }]);
    await close();
  });

  test("openDatabase() lets the server end a statement before its deadline of 1,500 ms", async () => {
    const database = openDatabase(server.address, { clock: createTestClock(), log: silentLog });
    const rows = await database.query((sql) => sql`select current_setting('statement_timeout') as limit`);
    expect(rows[0]).toEqual({ limit: "1350ms" });
    await database.close();
  });

  test("openDatabase() lets a replaced pool finish its running statements", async () => {
    const { database, close } = await openThroughProxy({ deadlineMs: 2_000 });
    const slow = database.query<{ done: boolean }>((sql) => sql`select true as done from pg_sleep(0.5)`);
    await timed(database.query((sql) => sql`select pg_sleep(1)`, { deadlineMs: 100 }));
    expect(database.stats()).toMatchObject({ deadlinesMissed: 1, poolsReplaced: 1 });
    expect([...(await slow)]).toEqual([{ done: true }]);
    await close();
  });

  test("openDatabase() keeps its connections when a statement is only slow", async () => {
    const { database, close } = await openThroughProxy();
    const [limit] = await database.query<{ ms: number }>(
      (sql) => sql`select setting::bigint as ms from pg_settings where name = 'statement_timeout'`,
    );
    // The server's limit ends first. This distinguishes a slow statement from a lost server.
    expect(limit?.ms).toBeWithin(DEADLINE_MS / 2, DEADLINE_MS);
    // The client's deadline is long here, so that it cannot end before the server's limit on a busy machine.
    const slow = database.query((sql) => sql`select pg_sleep(20)`, { deadlineMs: 10_000 });
    const { error } = await timed(slow);
    expect(error).toMatchObject({ name: "DatabaseUnavailable", code: "57014" });
    expect(database.stats().poolsReplaced).toBe(0);
    await close();
  });

  test("openDatabase() survives connections that the server ends", async () => {
    const { database, close } = await openThroughProxy({ deadlineMs: 5_000 });
    const recover = async () => {
      await Promise.all(Array.from({ length: 8 }, () => ask(database)));
      await server.database.query(
        (sql) => sql`
          select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database() and pid <> pg_backend_pid()`,
      );
      return await untilAnswered(database);
    };
    expect(await shortest(1_000, recover)).toBeLessThan(1_000);
    await close();
  });

  test("openDatabase() repeats a read whose connection is lost, and never a write", async () => {
    const { database, close } = await openThroughProxy({ deadlineMs: 10_000 });
    await database.query((sql) => sql`create sequence attempts`);
    // Every attempt but the third waits until it is cut off.
    const attempt = (sql: Sql) =>
      sql<{ number: number }[]>`
        select number, pg_sleep(case number when 3 then 0 else 4 end)
          from (select nextval('attempts') as number offset 0) attempt`;
    const attempting = (sql: Sql) =>
      sql<{ pid: number }[]>`
        select pid from pg_stat_activity
         where datname = current_database() and wait_event = 'PgSleep' and query like '%attempts%'`;
    /** Terminates the session that runs an attempt, as soon as there is one. */
    const cut = async () => {
      const find = () => server.database.query(attempting);
      const pid = await until(async () => (await find())[0]?.pid);
      await server.database.query((sql) => sql`select pg_terminate_backend(${pid})`);
      await until(async () => (await find()).every((row) => row.pid !== pid));
    };
    const write = timed(database.query(attempt));
    await cut();
    expect((await write).error).toBeInstanceOf(DatabaseUnavailable);
    const read = database.read(attempt);
    await cut();
    expect(await read).toMatchObject([{ number: 3 }]);
    const lost = timed(database.read(attempt));
    for (let i = 0; i < 2; i++) await cut();
    expect((await lost).error).toBeInstanceOf(DatabaseUnavailable);
    await close();
  });

  test("openDatabase() checks all other connections after it found a dead one", async () => {
    const proxy = await startFaultyProxy(server.address, { forgottenMs: 1_000 });
    const database = openDatabase(proxy.address, { clock: createTestClock(), log: silentLog });
    const use = () => Promise.all(Array.from({ length: 8 }, () => ask(database)));
    await use();
    proxy.set("resets_idle");
    // The pause is longer than the proxy remembers an idle connection.
    await Bun.sleep(1_100);
    // The pause is too short for a check by age: the read finds the first connection dead, and is repeated.
    await database.read((sql) => sql`select 1 as one`);
    await use();
    expect(proxy.stats()).toMatchObject({ forgotten: 8, open: 8 });
    await database.close();
    await proxy.close();
  });

  test("openDatabase() makes the operating system probe idle connections", async () => {
    const { database, proxy, close } = await openThroughProxy();
    await ask(database);
    const port = Number(new URL(proxy.address.url).port);
    expect(await timerOf(port)).toBe(KEEP_ALIVE_TIMER);
    await close();
  });

  test("close() fails statements that still run", async () => {
    const { database, close } = await openThroughProxy({ deadlineMs: 5_000 });
    const running = timed(database.query((sql) => sql`select pg_sleep(5)`));
    await until(() => database.stats().running > 0);
    await database.close();
    const { error, tookMs } = await running;
    expect(error).toBeInstanceOf(DatabaseUnavailable);
    expect(tookMs).toBeLessThan(1_000);
    expect((await timed(ask(database))).error).toBeInstanceOf(DatabaseUnavailable);
    await close();
  });
});

interface Opened {
  readonly database: Database;
  readonly proxy: FaultyProxy;
  readonly clock: TestClock;
  close(): Promise<void>;
}

async function openThroughProxy({
  stands = false,
  ...options
}: {
  stands?: boolean;
  maxConnections?: number;
  deadlineMs?: number;
  log?: Log;
} = {}): Promise<Opened> {
  const proxy = await startFaultyProxy(server.address);
  const clock = createTestClock(undefined, { stands });
  const database = openDatabase(proxy.address, {
    clock,
    log: silentLog,
    deadlineMs: DEADLINE_MS,
    ...options,
  });
  return {
    database,
    proxy,
    clock,
    async close() {
      await database.close();
      await proxy.close();
    },
  };
}

const KEEP_ALIVE_TIMER = 2;

/** Returns which timer runs on the connection to that port of 127.0.0.1: `timer_active` in Linux's table. */
async function timerOf(port: number): Promise<number | undefined> {
  const to = `0100007F:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  for (const line of (await Bun.file("/proc/net/tcp").text()).split("\n")) {
    const [, , remote, state, , timer] = line.trim().split(/\s+/);
    if (remote === to && state === "01") return Number(timer?.slice(0, 2));
  }
  return undefined;
}

function ask(database: Database): Promise<unknown> {
  return database.query((sql) => sql`select 1 as one`);
}

async function timed(promise: Promise<unknown>): Promise<{ error: unknown; tookMs: number }> {
  const began = performance.now();
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  return { error, tookMs: performance.now() - began };
}

async function untilAnswered(database: Database): Promise<number> {
  const began = performance.now();
  await until(async () => (await timed(ask(database))).error === undefined, { what: "the database answers" });
  return performance.now() - began;
}

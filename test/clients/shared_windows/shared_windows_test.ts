/** Rate windows that several processes share, by a clock of the database that the tests set. */
import { beforeEach, describe, expect, test } from "bun:test";
import { systemClock } from "../../../src/base/clock.ts";
import { newUuid } from "../../../src/base/ids.ts";
import { silentLog } from "../../../src/base/log.ts";
import type { KeyWindows, Verdict } from "../../../src/base/rate_limits/mod.ts";
import { createSharedWindows, sharedWindowsUpkeep } from "../../../src/clients/shared_windows/mod.ts";
import { type Database, openDatabase } from "../../../src/database/mod.ts";
import { createTestClock } from "../../support/clock.ts";
import { countWaiting } from "../../support/count_waiting.ts";
import { createTestDatabase } from "../../support/database.ts";
import { inTransaction } from "../../support/in_transaction.ts";
import { until } from "../../support/until.ts";
import { useForAll } from "../../support/use.ts";

const LIMIT = 5;
/** A whole second. */
const BEGAN = Date.UTC(2026, 0) / 1_000;

const server = useForAll(async () => {
  const made = await createTestDatabase();
  // A function with the same name, earlier in the search path, tells the time of this table.
  await made.database.query((sql) =>
    sql.unsafe(`do $do$ begin
      create schema fake;
      create table fake.clock (second numeric);
      insert into fake.clock values (${BEGAN});
      create function fake.clock_timestamp() returns timestamptz language sql as
        'select to_timestamp(second) from fake.clock';
      execute format('alter database %I set search_path = fake, pg_catalog, public', current_database());
    end $do$`),
  );
  const opened: Database[] = [];
  const open = () => {
    const options = { clock: systemClock, log: silentLog, maxConnections: 2, deadlineMs: 15_000 };
    const database = openDatabase(made.address, options);
    opened.push(database);
    return database;
  };
  const close = async () => {
    for (const database of opened) await database.close();
    await made.close();
  };
  return { ...made, database: open(), open, close };
});

beforeEach(() => setSecond(0));

/** Sets the clock of the database to `second` after the beginning. */
async function setSecond(second: number): Promise<void> {
  await server.database.query((sql) => sql`update fake.clock set second = ${BEGAN + second}::numeric`);
}

const clock = createTestClock(undefined, { stands: true });

/** Makes the windows of one process, of one endpoint. */
function openProcess(limit = LIMIT): KeyWindows {
  return createSharedWindows(server.open(), clock)("validate", () => limit);
}

const newKey = () => ({ uuid: newUuid(), window: undefined });

async function take(windows: KeyWindows, key: { uuid: string; window: undefined }): Promise<Verdict> {
  return await windows.take(key, clock.monotonicMs());
}

async function countAllowed(verdicts: readonly Promise<Verdict>[]): Promise<number> {
  return (await Promise.all(verdicts)).filter(({ allowed }) => allowed).length;
}

describe("createSharedWindows()", () => {
  test("admits as many as the limit says, whichever process is asked", async () => {
    const [one, other, key] = [openProcess(), openProcess(), newKey()];
    const asked = Array.from({ length: 40 }, (_, i) => take(i % 2 === 0 ? one : other, key));
    expect(await countAllowed(asked)).toBe(LIMIT);
    expect(await countAllowed([take(one, newKey())])).toBe(1);
  });

  test("gives each request the numbers of its headers", async () => {
    const [windows, key] = [openProcess(2), newKey()];
    await setSecond(0.25);
    const of = { limit: 2, resetAfterMs: 60_750 };
    const counted = { allowed: true, retryAfterSeconds: 0, countedSecond: BEGAN };
    expect(await windows.peek(key, 0)).toMatchObject({ allowed: true, remaining: 2, resetAfterMs: 0 });
    const both = await Promise.all([take(windows, key), take(windows, key), take(windows, key)]);
    expect(both).toEqual([
      { ...of, ...counted, remaining: 1 },
      { ...of, ...counted, remaining: 0 },
      { ...of, allowed: false, remaining: 0, retryAfterSeconds: 61, countedSecond: undefined },
    ]);
    expect(windows.stats()).toMatchObject({ refused: 1 });
  });

  test.each(["keys", "endpoints of a key"])(
    "locks %s in one order, whatever was asked first, so that two processes never wait for each other",
    async (what) => {
      const [one = "", other = ""] = [newUuid(), newUuid()].sort();
      const first = { uuid: one, endpoint: "refresh" };
      const second =
        what === "keys" ? { uuid: other, endpoint: "refresh" } : { uuid: one, endpoint: "validate" };
      const windows = createSharedWindows(server.open(), clock);
      const ask = ({ uuid, endpoint }: typeof first) =>
        take(
          windows(endpoint, () => LIMIT),
          { uuid, window: undefined },
        );
      expect(await countAllowed([first, second].map(ask))).toBe(2);
      const { asked } = await inTransaction(server.address, async (sql) => {
        const lock = ({ uuid, endpoint }: typeof first) => sql`
          select from shared_windows where key_id = ${uuid}::uuid and endpoint = ${endpoint} for update nowait`;
        await lock(first);
        const asked = countAllowed([second, first].map(ask));
        await until(async () => (await countWaiting(server.database)) > 0);
        // The statement that waits for the first holds no other one yet.
        await lock(second);
        return { asked };
      });
      expect(await asked).toBe(2);
    },
  );

  test("says when the last request that was counted leaves the window, whoever asked later", async () => {
    const [one, other, key] = [openProcess(1), openProcess(1), newKey()];
    await take(one, key);
    await setSecond(30);
    expect(await take(other, key)).toMatchObject({ allowed: false, resetAfterMs: 31_000 });
    expect(await openProcess(1).peek(key, 0)).toMatchObject({ allowed: false, resetAfterMs: 31_000 });
    await setSecond(60);
    expect(await openProcess(1).peek(key, 0)).toMatchObject({ allowed: false, resetAfterMs: 1_000 });
  });

  test("says when the first request leaves the window, and for a lower limit when enough have left it", async () => {
    const [one, key] = [openProcess(3), newKey()];
    for (const second of [0, 10, 20]) {
      await setSecond(second);
      await take(one, key);
    }
    for (const [limit, second, retryAfterSeconds] of [
      [3, 20, 41],
      [3, 60, 1],
      [2, 60, 11],
      [1, 60, 21],
    ] as const) {
      await setSecond(second);
      const refused = await take(openProcess(limit), key);
      expect([limit, second, refused]).toMatchObject([limit, second, { allowed: false, retryAfterSeconds }]);
    }
  });

  test("tells every refused request to wait until there is room, also after a statement that took long", async () => {
    const [windows, key] = [openProcess(2), newKey()];
    await take(windows, key);
    const { asked } = await inTransaction(server.address, async (sql) => {
      await sql`select from shared_windows for update`;
      const asked = Promise.all([take(windows, key), take(windows, key)]);
      await until(async () => (await countWaiting(server.database)) > 0);
      clock.advance(800);
      await sql`update fake.clock set second = ${BEGAN + 0.8}::numeric`;
      return { asked };
    });
    expect((await asked)[1]).toMatchObject({ allowed: false, retryAfterSeconds: 61 });
    expect(await take(windows, key)).toMatchObject({ allowed: false, retryAfterSeconds: 61 });
  });

  test("uses a limit that has changed at once, also for a window that is known to be full, and takes back by the old one", async () => {
    const key = { ...newKey(), leastLimit: 1 };
    const windows = createSharedWindows(server.open(), clock)("validate", ({ leastLimit = 0 }) => leastLimit);
    const takeWith = async (leastLimit: number) =>
      await windows.take({ ...key, leastLimit }, clock.monotonicMs());
    const first = await takeWith(1);
    expect(await takeWith(1)).toMatchObject({ allowed: false, limit: 1 });
    expect(await takeWith(3)).toMatchObject({ allowed: true, limit: 3, remaining: 1 });
    expect(await windows.peek({ ...key, leastLimit: 3 }, 0)).toMatchObject({ limit: 3, remaining: 1 });
    expect(windows.takeBack({ ...key, leastLimit: 3 }, first, 0)).toMatchObject({ limit: 1, remaining: 1 });
    expect(await takeWith(1)).toMatchObject({ allowed: false, limit: 1 });
    expect(await takeWith(3)).toMatchObject({ allowed: true, limit: 3, remaining: 1 });
  });

  test("counts a request through the 60th second after its own", async () => {
    const [windows, key] = [openProcess(1), newKey()];
    expect((await take(windows, key)).allowed).toBe(true);
    for (const second of [0.9, 30, 60.999]) {
      await setSecond(second);
      expect((await take(openProcess(1), key)).allowed).toBe(false);
    }
    await setSecond(61);
    expect((await take(openProcess(1), key)).allowed).toBe(true);
  });

  test("never admits more than the limit in 60 s, and refuses only a full window", async () => {
    const [one, other, key] = [openProcess(), openProcess(), newKey()];
    const admitted: number[] = [];
    let second = 0;
    for (let i = 0; i < 300; i++) {
      second += [0, 0, 0.5, 1, 3, 7, 40][(i * i + 3 * i) % 7] ?? 0;
      await setSecond(second);
      // What the process knows of full windows expires by its own clock.
      clock.advance(3_600_000);
      const counting = admitted.filter((at) => Math.floor(at) + 60 >= Math.floor(second));
      const { allowed } = await take(i % 3 === 0 ? one : other, key);
      expect({ second, allowed }).toEqual({ second, allowed: counting.length < LIMIT });
      if (allowed) admitted.push(second);
    }
    expect(admitted.length).toBeGreaterThan(50);
  });

  test("sends no statement for a full window before the second that it named", async () => {
    const [database, key] = [server.open(), newKey()];
    const windows = createSharedWindows(database, clock)("validate", () => 1);
    await take(windows, key);
    await take(windows, key);
    const { statements } = database.stats();
    clock.advance(59_500);
    const refused = await take(windows, key);
    expect(refused).toMatchObject({ allowed: false, retryAfterSeconds: 2 });
    expect(refused.resetAfterMs).toBeWithin(500, 1_500.1);
    expect(database.stats().statements).toBe(statements);
    await setSecond(61);
    clock.advance(1_500);
    expect((await take(windows, key)).allowed).toBe(true);
  });

  test("takes a request back, for every process, while it counts", async () => {
    const [one, other, key] = [openProcess(1), openProcess(1), newKey()];
    const first = await take(one, key);
    expect((await take(one, key)).allowed).toBe(false);
    expect(one.takeBack(key, first, 0)).toMatchObject({ remaining: 1, countedSecond: undefined });
    await until(async () => (await other.peek(key, 0)).remaining === 1);
    const second = await take(one, key);
    expect(second.allowed).toBe(true);

    await setSecond(61);
    expect((await take(other, key)).allowed).toBe(true);
    one.takeBack(key, second, 0);
    await one.peek(newKey(), 0);
    expect((await openProcess(1).peek(key, 0)).allowed).toBe(false);
  });

  test("takes requests back that were counted in different seconds", async () => {
    const [windows, key] = [openProcess(2), newKey()];
    const first = await take(windows, key);
    await setSecond(1);
    const second = await take(windows, key);
    for (const verdict of [first, second]) windows.takeBack(key, verdict, 0);
    expect((await windows.peek(key, 0)).remaining).toBe(2);
  });

  test("has room after a request was taken back while a statement found the window full", async () => {
    const [windows, key] = [openProcess(2), newKey()];
    const first = await take(windows, key);
    const { asked } = await inTransaction(server.address, async (sql) => {
      await sql`select from shared_windows for update`;
      const asked = countAllowed([take(windows, key), take(windows, key)]);
      await until(async () => (await countWaiting(server.database)) > 0);
      windows.takeBack(key, first, 0);
      return { asked };
    });
    expect(await asked).toBe(1);
    await until(async () => (await openProcess(2).peek(key, 0)).remaining === 1);
    expect((await take(windows, key)).allowed).toBe(true);
  });

  test("admits batches and single requests of two processes up to the limit together, and each batch whole", async () => {
    const limit = 40;
    for (let round = 0; round < 10; round++) {
      const [one, other, key] = [openProcess(limit), openProcess(limit), newKey()];
      const asked = Array.from({ length: 60 }, (_, i) => {
        const units = [1, 7, 1, 3, 12][i % 5] ?? 1;
        const windows = i % 2 === 0 ? one : other;
        return units === 1 ? take(windows, key) : Promise.resolve(windows.takeMany(key, 0, units));
      });
      const verdicts = await Promise.all(asked);
      const admitted = verdicts.filter(({ allowed }) => allowed).map(({ units = 1 }) => units);
      const sum = admitted.reduce((total, units) => total + units, 0);
      // The smallest batches have three requests, and some of them are refused.
      expect(sum).toBeWithin(limit - 2, limit + 1);
      expect((await openProcess(limit).peek(key, 0)).remaining).toBe(limit - sum);
      for (const verdict of verdicts.filter(({ allowed }) => allowed)) one.takeBack(key, verdict, 0);
      await until(async () => (await openProcess(limit).peek(key, 0)).remaining === limit);
    }
  });

  test("counts nothing of a batch without room for all of it, also for another process at that moment", async () => {
    const [database, other, key] = [server.open(), openProcess(), newKey()];
    const returned = Promise.withResolvers<void>();
    const slow: Database = {
      ...database,
      async query(build, options) {
        const rows = await database.query(build, options);
        await returned.promise;
        return rows;
      },
    };
    expect((await other.takeMany(key, 0, LIMIT - 2)).allowed).toBe(true);
    const refused = Promise.resolve(
      createSharedWindows(slow, clock)("validate", () => LIMIT).takeMany(key, 0, 3),
    );
    const isCounted = async () => {
      const [row] = await server.database.query<{ granted: number }>(
        (sql) => sql`select granted from shared_windows where key_id = ${key.uuid}::uuid`,
      );
      return row?.granted === 0;
    };
    await until(isCounted);
    expect(await take(other, key)).toMatchObject({ allowed: true, remaining: 1 });
    returned.resolve();
    expect(await refused).toMatchObject({
      allowed: false,
      limit: LIMIT,
      remaining: 2,
      countedSecond: undefined,
    });
    expect(await other.takeMany(key, 0, 2)).toMatchObject({ allowed: false, remaining: 1 });
    expect(await take(other, key)).toMatchObject({ allowed: true, remaining: 0 });
    expect(await other.takeMany(key, 0, 1)).toMatchObject({ allowed: false, remaining: 0 });
  });

  test("takes a whole batch back, and gives each batch the numbers of its headers", async () => {
    const [windows, key] = [openProcess(10), newKey()];
    const batch = await windows.takeMany(key, 0, 6);
    expect(batch).toEqual({
      ...{ allowed: true, limit: 10, remaining: 4, retryAfterSeconds: 0, countedSecond: BEGAN, units: 6 },
      resetAfterMs: 61_000,
    });
    await setSecond(1);
    expect(await windows.takeMany(key, 0, 5)).toMatchObject({
      allowed: false,
      remaining: 4,
      retryAfterSeconds: 60,
    });
    expect(windows.stats()).toEqual({ refused: 1, waiting: 0 });
    expect(windows.takeBack(key, batch, 0)).toMatchObject({
      allowed: true,
      remaining: 10,
      countedSecond: undefined,
    });
    expect(await windows.takeMany(key, 0, 10)).toMatchObject({ allowed: true, remaining: 0 });
  });

  test("tells how many requests wait, and how many were refused", async () => {
    const [windows, key] = [openProcess(1), newKey()];
    const asked = countAllowed([take(windows, key), take(windows, key)]);
    expect(windows.stats()).toEqual({ refused: 0, waiting: 2 });
    expect(await asked).toBe(1);
    await take(windows, key);
    expect(windows.stats()).toEqual({ refused: 2, waiting: 0 });
  });

  test("a clock that steps back stops the window, and a large step begins it anew", async () => {
    const key = newKey();
    await setSecond(50);
    expect((await take(openProcess(1), key)).allowed).toBe(true);
    await setSecond(0);
    expect((await take(openProcess(1), key)).allowed).toBe(false);
    await setSecond(-20);
    expect((await take(openProcess(1), key)).allowed).toBe(true);
  });

  test("refuses every request that waits if the statement fails", async () => {
    const database = server.open();
    const windows = createSharedWindows(database, clock)("validate", () => 1);
    await database.close();
    const asked = await Promise.allSettled([take(windows, newKey()), take(windows, newKey())]);
    expect(asked.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(windows.stats()).toEqual({ refused: 0, waiting: 0 });
  });
});

test("the upkeep deletes the windows in which nothing counts any more", async () => {
  const [windows, idle, busy] = [openProcess(), newKey(), newKey()];
  await take(windows, idle);
  await setSecond(30);
  await take(windows, busy);
  await setSecond(62);
  await sharedWindowsUpkeep.run({
    database: server.database,
    clock,
    log: silentLog,
    isStopping: () => false,
  });
  const rows = await server.database.query<{ uuid: string }>(
    (sql) =>
      sql`select key_id as uuid from shared_windows where key_id in (${idle.uuid}::uuid, ${busy.uuid}::uuid)`,
  );
  expect(rows).toEqual([{ uuid: busy.uuid }]);
});

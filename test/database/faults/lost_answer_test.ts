/** A lost or refused connection has no effect on the connection that replaces it. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { systemClock } from "../../../src/base/clock.ts";
import { silentLog } from "../../../src/base/log.ts";
import { type Database, openDatabase } from "../../../src/database/mod.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";
import { addressThrough, whereIs } from "../../support/faulty_proxy.ts";
import { type MessageProxy, startMessageProxy } from "../../support/message_proxy.ts";
import { until } from "../../support/until.ts";

let testDatabase: TestDatabase;
let proxy: MessageProxy;
let database: Database;

beforeEach(async () => {
  testDatabase = await createTestDatabase();
  proxy = await startMessageProxy(whereIs(testDatabase.address));
  const url = addressThrough(testDatabase.address, `127.0.0.1:${proxy.port}`);
  database = openDatabase({ url }, { clock: systemClock, log: silentLog, maxConnections: 1 });
});
afterEach(async () => {
  await database.close();
  await proxy.close();
  await testDatabase.close();
});

/** Returns the error's message. Not `rejects`: while it waits, the runner delays the clean-up of a refused connection. */
const failureOf = (query: Promise<unknown>) =>
  query.then(
    () => undefined,
    (error: Error) => error.message,
  );

const count = (to: number) =>
  database.query<{ n: number }>((sql) => sql`select n from generate_series(1, ${to}::integer) as n`);

test("Database.query() returns only its own rows after an earlier answer was cut off after its rows", async () => {
  expect(await count(2)).toEqual([{ n: 1 }, { n: 2 }]);
  // The rows of the answer arrive, but not its end (CommandComplete).
  proxy.arm({ message: "server C", action: "cut" });
  expect(await failureOf(count(3))).toStartWith("The database does not answer");
  proxy.release();
  const rows = await count(1);
  expect(rows).toHaveLength(1);
  expect(rows[0]).toEqual({ n: 1 });
});

test("Database.query() gets its answer at once from a server that refused connections before", async () => {
  await proxy.close();
  for (let refused = 0; refused < 3; refused++) {
    expect(await failureOf(count(1))).toBe("The database does not answer: ECONNREFUSED");
  }
  proxy = await startMessageProxy(whereIs(testDatabase.address), proxy.port);
  expect(await count(1)).toEqual([{ n: 1 }]);
  expect(database.stats()).toMatchObject({ deadlinesMissed: 0, poolsReplaced: 0 });
});

/** Ends the only connection of `database` as soon as it waits for an event of the kind. */
async function endWhileWaiting(kind: "Timeout" | "Lock"): Promise<void> {
  await until(async () => {
    const ended = await testDatabase.database.query(
      (sql) => sql`
        select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and query not like '%do $$%' and pid <> pg_backend_pid()
           and wait_event_type = ${kind}`,
    );
    return ended.length > 0;
  });
}

test("Database.query() gets its answer on a new connection after the server ended the old one", async () => {
  const [slept] = await Promise.allSettled([
    database.query((sql) => sql`select from pg_sleep(1)`),
    endWhileWaiting("Timeout"),
  ]);
  expect(slept.status).toBe("rejected");
  expect(await count(1)).toEqual([{ n: 1 }]);
});

test("Database.query() gets its answer on a new connection after the old one ended while it parsed a statement", async () => {
  const locked = testDatabase.database.query(
    (sql) => sql`do ${sql.unsafe("$$ begin lock table events; perform pg_sleep(1); end $$")}`,
  );
  const readAndEnd = async () => {
    await until(async () => {
      const held = await testDatabase.database.query(
        (sql) => sql`
          select from pg_locks
           where relation = 'events'::regclass and mode = 'AccessExclusiveLock' and granted`,
      );
      return held.length > 0;
    });
    return await Promise.allSettled([
      database.query((sql) => sql`select from events where key_id = ${null}::uuid`),
      endWhileWaiting("Lock"),
    ]);
  };
  const [[read]] = await Promise.all([readAndEnd(), locked]);
  expect(read?.status).toBe("rejected");
  expect(await count(1)).toEqual([{ n: 1 }]);
  expect(database.stats()).toMatchObject({ deadlinesMissed: 0, poolsReplaced: 0 });
});

test("Database.query() does not wait for its deadline if it was called while a connection was reset", async () => {
  await count(1);
  proxy.arm({ message: "client B", action: "reset" });
  const again = await count(1).catch(() => {
    proxy.release();
    return failureOf(count(1));
  });
  expect(again).not.toBe("The database does not answer: deadline");
  expect(await count(1)).toEqual([{ n: 1 }]);
  expect(database.stats()).toMatchObject({ deadlinesMissed: 0, poolsReplaced: 0 });
});

/** What a connection leaves behind that was lost or refused must not show in what takes its place. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { systemClock } from "../../src/clock.ts";
import { type Database, type DatabaseAddress, openDatabase } from "../../src/database/mod.ts";
import { silentLog } from "../../src/log.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type MessageProxy, startMessageProxy, type Target } from "../support/message_proxy.ts";

let testDatabase: TestDatabase;
let proxy: MessageProxy;
let database: Database;

beforeEach(async () => {
  testDatabase = await createTestDatabase();
  proxy = await startMessageProxy(targetOf(testDatabase.address));
  const url = urlOf(testDatabase.address);
  url.host = `127.0.0.1:${proxy.port}`;
  database = openDatabase({ url: url.href }, { clock: systemClock, log: silentLog, maxConnections: 1 });
});
afterEach(async () => {
  await database.close();
  await proxy.close();
  await testDatabase.close();
});

function targetOf(address: DatabaseAddress): Target {
  if (!("url" in address)) return { path: address.socketPath };
  const { hostname, port } = urlOf(address);
  return { host: hostname, port: Number(port || 5432) };
}

function urlOf(address: DatabaseAddress): URL {
  return new URL("url" in address ? address.url : `postgres://${address.user}@127.0.0.1/${address.database}`);
}

const count = (to: number) =>
  database.query<{ n: number }>((sql) => sql`select n from generate_series(1, ${to}::integer) as n`);

test("Database.query() gives its own rows alone after an answer was cut off behind its rows", async () => {
  expect(await count(2)).toEqual([{ n: 1 }, { n: 2 }]);
  // The rows of the answer arrive; that it is complete does not.
  proxy.arm({ message: "server C", action: "cut" });
  await expect(count(3)).rejects.toThrow("The database does not answer");
  proxy.release();
  const rows = await count(1);
  expect(rows).toHaveLength(1);
  expect(rows[0]).toEqual({ n: 1 });
});

test("Database.query() is answered at once by a server that refused connections before", async () => {
  await proxy.close();
  for (let refused = 0; refused < 3; refused++) {
    await expect(count(1)).rejects.toThrow("The database does not answer: ECONNREFUSED");
  }
  proxy = await startMessageProxy(targetOf(testDatabase.address), proxy.port);
  expect(await count(1)).toEqual([{ n: 1 }]);
  expect(database.stats()).toMatchObject({ deadlinesMissed: 0, poolsReplaced: 0 });
});

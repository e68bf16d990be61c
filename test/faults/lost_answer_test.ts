/** The rows that a lost connection had begun to give must not show in the answer to a later statement. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { systemClock } from "../../src/clock.ts";
import { type Database, type DatabaseAddress, openDatabase } from "../../src/database/mod.ts";
import { silentLog } from "../../src/log.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type MessageProxy, startMessageProxy } from "../support/message_proxy.ts";

let testDatabase: TestDatabase;
let proxy: MessageProxy;
let database: Database;

beforeAll(async () => {
  testDatabase = await createTestDatabase();
  const url = urlOf(testDatabase.address);
  const { address } = testDatabase;
  const host = { host: url.hostname, port: Number(url.port || 5432) };
  proxy = await startMessageProxy("url" in address ? host : { path: address.socketPath });
  url.host = `127.0.0.1:${proxy.port}`;
  database = openDatabase({ url: url.href }, { clock: systemClock, log: silentLog, maxConnections: 1 });
});
afterAll(async () => {
  await database.close();
  await proxy.close();
  await testDatabase.close();
});

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

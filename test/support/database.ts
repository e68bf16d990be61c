/**
 * A database of its own for each test file: a copy of one that was migrated once in this run.
 */
import postgres from "postgres";
import { systemClock } from "../../src/clock.ts";
import {
  type Database,
  type DatabaseAddress,
  migrate,
  migrations,
  openDatabase,
} from "../../src/database/mod.ts";
import { silentLog } from "../../src/log.ts";
import { isRefusal } from "../../src/refusal.ts";
import { type TestServer, testServer } from "./postgres.ts";

export interface TestDatabase {
  readonly address: DatabaseAddress;
  readonly database: Database;
  close(): Promise<void>;
}

let template: Promise<string> | undefined;
let copies = 0;

/** Makes a copy of the migrated template, or an empty database. */
export async function createTestDatabase(options: { readonly empty?: boolean } = {}): Promise<TestDatabase> {
  const server = await testServer();
  template ??= makeTemplate(server);
  const source = options.empty ? "template1" : await template;
  const name = `claviger_test_${process.pid}_${++copies}`;
  await asAdmin(server, `create database ${name} template ${source}`);
  const address = addressOf(server, name);
  const database = openDatabase(address, {
    clock: systemClock,
    log: silentLog,
    maxConnections: 4,
    deadlineMs: 15_000,
  });
  return {
    address,
    database,
    async close() {
      await database.close();
      await asAdmin(server, `drop database if exists ${name} with (force)`);
    },
  };
}

async function makeTemplate(server: TestServer): Promise<string> {
  const name = `claviger_template_${process.pid}`;
  await asAdmin(server, `drop database if exists ${name} with (force)`);
  await asAdmin(server, `create database ${name} template template1`);
  const migrated = await migrate(addressOf(server, name), migrations);
  if (isRefusal(migrated)) throw new Error(migrated.sentence);
  return name;
}

function addressOf(server: TestServer, database: string): DatabaseAddress {
  if (!("url" in server)) return { socketPath: server.socketPath, user: server.user, database };
  const url = new URL(server.url);
  url.pathname = `/${database}`;
  return { url: url.href };
}

async function asAdmin(server: TestServer, statement: string): Promise<void> {
  const options = { max: 1, fetch_types: false, onnotice() {} };
  const sql =
    "url" in server
      ? postgres(server.url, options)
      : postgres({ path: server.socketPath, user: server.user, database: server.database, ...options });
  try {
    await sql.unsafe(statement);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

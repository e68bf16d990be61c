/**
 * Gives each test file its own database: a copy of a template that is migrated once per server. The
 * template's name contains the checksum of the migrations, so a changed migration gets a new template.
 */
import { createHash, randomBytes } from "node:crypto";
import postgres from "postgres";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import {
  type Database,
  type DatabaseAddress,
  migrate,
  migrations,
  openDatabase,
} from "../../src/database/mod.ts";
import { type TestServer, testServer } from "./postgres.ts";

export interface TestDatabase {
  readonly address: DatabaseAddress;
  readonly database: Database;
  close(): Promise<void>;
}

let template: Promise<string> | undefined;
let admin: postgres.Sql | undefined;

/** Any fixed number works: test processes that share a server take turns to make the template. */
const TEMPLATE_LOCK = 1_853_002_771;

/** Makes a copy of the migrated template, or an empty database. It is closed at the end of an `await using` block, too. */
export async function createTestDatabase(
  options: { readonly empty?: boolean } = {},
): Promise<TestDatabase & AsyncDisposable> {
  const server = await testServer();
  template ??= makeTemplate(server);
  const source = options.empty ? "template1" : await template;
  const name = `claviger_test_${randomBytes(8).toString("hex")}`;
  // `file_copy` writes no write-ahead log for the pages, and takes half the time of the default.
  await asAdmin(server, `create database ${name} template ${source} strategy file_copy`);
  const address = addressOf(server, name);
  const database = openDatabase(address, {
    clock: systemClock,
    log: silentLog,
    maxConnections: 4,
    deadlineMs: 15_000,
  });
  async function close(): Promise<void> {
    await database.close();
    await asAdmin(server, `drop database if exists ${name} with (force)`);
  }
  return { address, database, close, [Symbol.asyncDispose]: close };
}

/** Returns the name of the migrated template, and makes it if the server has none yet. */
async function makeTemplate(server: TestServer): Promise<string> {
  const texts = migrations.map(({ text }) => text).join("\0");
  const name = `claviger_template_${createHash("sha256").update(texts).digest("hex").slice(0, 16)}`;
  await withAdmin(server, async (sql) => {
    await sql`select pg_advisory_lock(${TEMPLATE_LOCK})`;
    const found = await sql`select from pg_database where datname = ${name}`;
    if (found.length > 0) return;
    // It has another name until it is migrated, so that an interrupted run leaves no broken template.
    const draft = `${name}_draft`;
    await sql.unsafe(`drop database if exists ${draft} with (force)`);
    await sql.unsafe(`create database ${draft} template template1`);
    const migrated = await migrate(addressOf(server, draft), migrations);
    if (isRefusal(migrated)) throw new Error(migrated.sentence);
    await sql.unsafe(`alter database ${draft} rename to ${name}`);
  });
  return name;
}

function addressOf(server: TestServer, database: string): DatabaseAddress {
  if (!("url" in server)) return { socketPath: server.socketPath, user: server.user, database };
  const url = new URL(server.url);
  url.pathname = `/${database}`;
  return { url: url.href };
}

/** Runs a statement on a connection that stays open for the next one, because opening it costs as much CPU as both. */
async function asAdmin(server: TestServer, statement: string): Promise<void> {
  admin ??= connectAsAdmin(server, { idle_timeout: 2 });
  await admin.unsafe(statement);
}

async function withAdmin(server: TestServer, work: (sql: postgres.Sql) => Promise<unknown>): Promise<void> {
  const sql = connectAsAdmin(server);
  try {
    await work(sql);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

function connectAsAdmin(server: TestServer, more: { readonly idle_timeout?: number } = {}): postgres.Sql {
  const options = { max: 1, fetch_types: false, onnotice() {}, ...more };
  if ("url" in server) return postgres(server.url, options);
  return postgres({ path: server.socketPath, user: server.user, database: server.database, ...options });
}

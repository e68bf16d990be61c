/** Starts the service on a PostgreSQL that refuses it, for each reason that an administrator can give it. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { cleanUp, holdSession, makeDataFolder, query, start } from "../database/embedded_test_kit.ts";
import { type FaultyProxy, startFaultyProxy } from "../support/faulty_proxy.ts";
import { TEST_SECRET } from "../support/secrets.ts";
import { until } from "../support/until.ts";
import { type CommandLine, createCommandLine, type Ended } from "./command_line.ts";

const RULES = `
local all claviger trust
local all rejected reject
local all all scram-sha-256
`;
const STATEMENTS = [
  "create role shop login superuser password 'right'",
  "create role group_of_users password 'right'",
  "create role former login password 'right' valid until '2020-01-01'",
  "create role rejected login password 'right'",
  "create role poor login password 'right'",
  "create role full_up login password 'right' connection limit 0",
  "create database closed allow_connections false",
  "create database private",
  "revoke connect on database private from public",
  "create database readable",
  "create database unwritable",
  "alter database unwritable set default_transaction_read_only = on",
];

let line: CommandLine;
let proxy: FaultyProxy;

beforeAll(async () => {
  line = createCommandLine();
  const folder = makeDataFolder();
  const server = await start(folder);
  for (const statement of STATEMENTS) await query(server.address, statement);
  writeFileSync(join(folder, "postgres/pg_hba.conf"), RULES);
  await query(server.address, "select pg_reload_conf()");
  proxy = await startFaultyProxy(server.address);
  await until(async () => (await serve("shop:wrong", "none")).err.includes("28P01"));
});
afterAll(async () => {
  await proxy.close();
  await cleanUp();
  line.remove();
});

async function serve(login: string, database: string, { address } = proxy): Promise<Ended> {
  const url = `postgres://${login}@${new URL(address.url).host}/${database}`;
  return await line.run(["serve", "--env-file", "/dev/null", "--port", "0", "--data-dir", line.dataDir], {
    env: { DATABASE_URL: url, CLAVIGER_SECRET: TEST_SECRET },
  });
}

describe("claviger serve on a PostgreSQL that refuses it", () => {
  const right = "must own the database, or must have the right to create in its schema public";
  const cases: [
    why: string,
    login: string,
    database: string,
    status: number,
    says: string,
    remedy: string,
  ][] = [
    ["a wrong password", "shop:wrong", "postgres", 78, "28P01", "check the user and the password"],
    ["no password", "shop", "postgres", 78, "28P01", "check the user and the password"],
    ["an expired password", "former:right", "postgres", 78, "28P01", "check the user and the password"],
    ["a role that may not log in", "group_of_users:right", "postgres", 78, "28000", "check the user"],
    ["a rule of pg_hba.conf", "rejected:right", "postgres", 78, "28000", "pg_hba.conf"],
    ["a database that does not exist", "shop:right", "none", 78, "3D000", "create it, or correct its name"],
    ["a database without connections", "shop:right", "closed", 78, "55000", "allow_connections"],
    ["no right to connect", "poor:right", "private", 78, "42501", right],
    ["no right to create", "poor:right", "readable", 78, "42501", right],
    ["a read-only database", "shop:right", "unwritable", 1, "25006", "default_transaction_read_only"],
    ["too many connections", "full_up:right", "postgres", 1, "53300", "close some of its connections"],
  ];
  test.each(cases)("because of %s says what to do", async (_, login, database, status, says, remedy) => {
    const ended = await serve(login, database);
    expect(ended).toEqual({ status, out: "", err: expect.stringContaining(`(${says}); `) });
    expect(ended.err).toContain(remedy);
    expect(ended.err).not.toContain("right@");
  });

  test("because it stops at this moment ends with 1, and says to wait", async () => {
    const stopping = await start(makeDataFolder());
    const way = await startFaultyProxy(stopping.address);
    await holdSession(stopping.address);
    // PostgreSQL then waits for its sessions, and lets nobody else in.
    process.kill(stopping.pid() ?? 0, "SIGTERM");
    const ended = await until(async () => {
      const refused = await serve("claviger", "none", way);
      return refused.err.includes("57P03") && refused;
    });
    await way.close();
    expect(ended).toMatchObject({ status: 1, err: expect.stringContaining("; wait until it has started") });
  });
});

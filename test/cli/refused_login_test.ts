/**
 * Starts the service on a PostgreSQL that refuses it, for each reason that an administrator can give it, and examines it
 * with `doctor`.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { cleanUp, holdSession, makeDataFolder, query, start } from "../database/embedded_test_kit.ts";
import { type FaultyProxy, startFaultyProxy } from "../support/faulty_proxy.ts";
import { TEST_SECRET } from "../support/secrets.ts";
import { until } from "../support/until.ts";
import { type CommandLine, createCommandLine, type Ended, readFindings } from "./command_line.ts";

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

function envOf(login: string, database: string, { address } = proxy) {
  const url = `postgres://${login}@${new URL(address.url).host}/${database}`;
  return { DATABASE_URL: url, CLAVIGER_SECRET: TEST_SECRET };
}

async function serve(login: string, database: string, way = proxy): Promise<Ended> {
  return await line.here(["serve", "--port", "0"], { env: envOf(login, database, way) });
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

  // The others are let in, and refused later.
  const atLogin = cases.filter(([, , database]) => database !== "readable" && database !== "unwritable");
  test.each(atLogin)("because of %s gets the same sentence from doctor once", async (_, login, database) => {
    const { err } = await serve(login, database);
    const examined = readFindings(await line.here(["doctor", "--json"], { env: envOf(login, database) }));
    const failed = examined.findings.filter(({ state }) => state === "fail");
    expect(failed.map(({ message }) => `claviger: ${message}\n`)).toEqual([err]);
    for (const name of ["connection", "writes", "schema", "secret", "backup", "keys"]) {
      expect(examined.of(name)).toEqual({ name, state: "skip", message: "not examined: see database above" });
    }
  });

  test("without tables is told so by doctor once", async () => {
    const examined = readFindings(
      await line.here(["doctor", "--json"], { env: envOf("poor:right", "readable") }),
    );
    expect(examined.of("schema")).toMatchObject({ state: "fail", remedy: "`claviger migrate`" });
    for (const name of ["secret", "backup", "keys"])
      expect(examined.of(name)).toEqual({ name, state: "skip", message: "not examined: see schema above" });
  });

  test("while it runs finds the same words in its log", async () => {
    const folder = makeDataFolder();
    const server = await start(folder);
    await query(server.address, "create role shop login superuser password 'right'");
    writeFileSync(join(folder, "postgres/pg_hba.conf"), RULES);
    await query(server.address, "select pg_reload_conf()");
    const way = await startFaultyProxy(server.address);
    const env = { ...envOf("shop:right", "postgres", way), CLAVIGER_LOG_FORMAT: "json" };
    const service = await line.serve([], { env });
    await query(server.address, "alter role shop password 'wrong'");
    await query(
      server.address,
      "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'shop'",
    );
    const health = async () => (await fetch(`${service.url}/api/health`)).status;
    await until(async () => (await health()) === 503);
    const { err } = await service.stop();
    await way.close();
    const [said] = err.split("\n").filter((text) => text.includes("requests are refused until it does"));
    expect(JSON.parse(said ?? "{}").reason).toBe(
      'password authentication failed for user "shop" (28P01); check the user and the password in DATABASE_URL',
    );
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

/**
 * Runs `serve` with each fault of the table in the manual (`claviger guide troubleshooting`), and compares its exit status
 * with the table.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, spyOn, test } from "bun:test";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { bunPlatform } from "../../src/base/platform/bun/mod.ts";
import { listenFailure } from "../../src/base/platform/listen_failure.ts";
import { openSession } from "../../src/database/mod.ts";
import { listenOrRefuse } from "../../src/wire/mod.ts";
import { makeCertificate } from "../support/certificates.ts";
import { createExternalDatabase, type ExternalDatabase } from "../support/external_database.ts";
import { findFreePort } from "../support/find_free_port.ts";
import { isRoot } from "../support/is_root.ts";
import { type CommandLine, createCommandLine, type Ended } from "./command_line.ts";

// The program waits 30 seconds for the lock of migrations.
setDefaultTimeout(120_000);

const ROOT = join(import.meta.dir, "../..");
const asRoot = isRoot("the exit status of a full disk, and of root in a folder of another user");
const canMount = asRoot && spawnSync("unshare", ["--mount", "true"]).status === 0;
const PAGE = readFileSync(join(ROOT, "src/cli/guide/troubleshooting.md"), "utf8");
const TABLE = new Map(
  [...PAGE.matchAll(/^\| (.+?) \| (1|2|78) \|$/gm)].map(([, fault = "", status]) => [fault, Number(status)]),
);
const SECRET = "c5f2a0e9b18d47630a9be4d2f7c81653e0b7a4d9125fc83e6071d2ab94ce5f38";
const OTHER_SECRET = [...SECRET].toReversed().join("");

let line: CommandLine;
let served: CommandLine;
let url: string;
let taken: Server;
let waiting: Promise<Ended>;
let waitingToo: Promise<Ended>;

beforeAll(async () => {
  line = createCommandLine();
  served = createCommandLine({ prepared: true });
  ({ url } = await createDatabase());
  taken = createServer().listen(0, "127.0.0.1");
  const held = join(line.folder, "held");
  mkdirSync(held, { mode: 0o711 });
  const lock = bunPlatform.tryLock(join(held, "lock"));
  closing.push(() => lock?.release());
  // It waits ten seconds for a command that uses the folder.
  waitingToo = start({ CLAVIGER_DATA_DIR: held });
  waiting = start({ DATABASE_URL: await lockMigrations(), CLAVIGER_SECRET: SECRET });
  await (await served.serve()).stop();
});
afterAll(async () => {
  taken.close();
  for (const close of closing.toReversed()) await close();
  for (const each of [line, served]) each.remove();
});
const closing: (() => unknown)[] = [];

/** Runs `serve`, and returns its end. A start without a fault is stopped, and ends with 0. */
async function start(env: Record<string, string>, args: readonly string[] = []): Promise<Ended> {
  return await line.run(["serve", "--env-file", "/dev/null", ...args], {
    env: { CLAVIGER_PORT: "0", CLAVIGER_DATA_DIR: join(line.folder, "none"), ...env },
    signal: "SIGTERM",
  });
}

/** Starts it in a folder that is mounted with these options. */
async function startIn(options: string): Promise<Ended> {
  const folder = mkdtempSync(join(line.folder, "mounted-"));
  spawnSync("mount", ["-t", "tmpfs", "-o", `${options},mode=755`, "none", folder]);
  return await start({ CLAVIGER_DATA_DIR: folder }).finally(() => spawnSync("umount", [folder]));
}

/**
 * Starts it in a folder in which a service ran, with another text in one of its files, or without the file. Then puts
 * the file back.
 */
async function startWith(name: string, text: string | undefined): Promise<Ended> {
  const path = join(served.dataDir, name);
  const { mode } = statSync(path);
  const kept = readFileSync(path);
  if (text === undefined) rmSync(path);
  else writeFileSync(path, text);
  return await start({ CLAVIGER_DATA_DIR: served.dataDir }).finally(() =>
    writeFileSync(path, kept, { mode }),
  );
}

async function createDatabase(): Promise<ExternalDatabase> {
  const made = await createExternalDatabase();
  closing.push(made.close);
  return made;
}

/** Makes a database with rows that only this statement gives it, and returns its address. */
async function databaseWith(statement: string): Promise<string> {
  const made = await createDatabase();
  await made.database.query((sql) => sql.unsafe(statement));
  return made.url;
}

async function lockMigrations(): Promise<string> {
  const other = await createDatabase();
  const session = openSession(other.address, { statementTimeoutMs: 120_000 });
  closing.push(session.close);
  await session.sql`select pg_advisory_lock(4127551889)`;
  return other.url;
}

const portOf = (server: Server) => String((server.address() as { port: number }).port);
const own = () => ({ DATABASE_URL: url, CLAVIGER_SECRET: SECRET });
const app = { CLAVIGER_GITHUB_APP_ID: "1", CLAVIGER_GITHUB_INSTALLATION_ID: "1" };

/** A folder in which `postgres` and `initdb` say that they are version 17. */
function otherPostgres(): string {
  const bin = join(line.folder, "postgres-17");
  mkdirSync(bin, { recursive: true });
  for (const name of ["postgres", "initdb"]) {
    writeFileSync(join(bin, name), `#!/bin/sh\necho '${name} (PostgreSQL) 17.6'\n`);
    chmodSync(join(bin, name), 0o755);
  }
  chmodSync(bin, 0o755);
  return bin;
}

interface Case {
  readonly says: string;
  /** False if this machine or user cannot make the fault. */
  readonly can?: boolean;
  readonly ends: () => Promise<Ended> | Ended;
}

/** For each fault of the table, one or more starts that have it. */
const CASES: Readonly<Record<string, readonly Case[]>> = {
  "wrong usage: an unknown option, or a wrong value of an option": [
    { says: "unknown option", ends: () => start({}, ["--prot", "1"]) },
    { says: "must be a whole number", ends: () => start({}, ["--port", "x"]) },
  ],
  "a setting is wrong or unknown": [
    { says: "CLAVIGER_LOG_FORMAT must be", ends: () => start({ CLAVIGER_LOG_FORMAT: "xml" }) },
    { says: "is not a setting", ends: () => start({ CLAVIGER_PROT: "1" }) },
    { says: "Cannot serve operators", ends: () => start({ CLAVIGER_ADMIN_LISTEN: "0.0.0.0:1" }) },
  ],
  "two settings name the same address": [
    {
      says: "another setting names the same address; choose another with --metrics-listen",
      async ends() {
        const port = String(await findFreePort());
        return await start({ CLAVIGER_PORT: port, CLAVIGER_METRICS_LISTEN: `127.0.0.1:${port}` });
      },
    },
  ],
  "the key of the GitHub App is missing, or cannot be used": [
    {
      says: "there is no such file",
      ends: () =>
        start({ ...app, CLAVIGER_GITHUB_REPOSITORY: "a", CLAVIGER_GITHUB_PRIVATE_KEY_FILE: "/none" }),
    },
  ],
  "the certificate or its key is missing, or they do not match": [
    {
      says: "does not belong to the first certificate",
      ends() {
        const [one, two] = ["one", "two"].map((name) => makeCertificate(line.folder, name));
        return start({ CLAVIGER_TLS_CERT: one?.certFile ?? "", CLAVIGER_TLS_KEY: two?.keyFile ?? "" });
      },
    },
    {
      says: "there is no such file",
      ends: () => start({ CLAVIGER_TLS_CERT: "/none", CLAVIGER_TLS_KEY: "/none" }),
    },
  ],
  "the secret is missing, or is not the one of the first start": [
    { says: "so the secret must be given", ends: () => start({ DATABASE_URL: url }) },
    { says: "Cannot use the secret of", ends: () => start({ DATABASE_URL: url, CLAVIGER_SECRET: "short" }) },
    {
      says: "another one; give the secret of the first start",
      async ends() {
        await (await line.serve([], { env: own() })).stop();
        return await start({ DATABASE_URL: url, CLAVIGER_SECRET: OTHER_SECRET });
      },
    },
    { says: "there is no file secret in", ends: () => startWith("secret", undefined) },
  ],
  "`CLAVIGER_POSTGRES_BIN` has another major version, or another major version made the data": [
    {
      says: "is of version 17.6",
      ends: () =>
        start({ CLAVIGER_POSTGRES_BIN: otherPostgres(), CLAVIGER_DATA_DIR: join(line.folder, "new") }),
    },
    { says: "PostgreSQL 17 made it", ends: () => startWith("postgres/PG_VERSION", "17\n") },
  ],
  "the data is lost or damaged, or a restore has not ended": [
    { says: "has no valid PG_VERSION", ends: () => startWith("postgres/PG_VERSION", "\n") },
    {
      says: "its database is lost: it has models",
      ends() {
        const folder = join(line.folder, "lost");
        mkdirSync(join(folder, "models"), { recursive: true, mode: 0o711 });
        writeFileSync(join(folder, "models/file"), "");
        return start({ CLAVIGER_DATA_DIR: folder });
      },
    },
    {
      says: "a restore into it has begun and has not ended",
      async ends() {
        const note = join(served.dataDir, "restoring");
        writeFileSync(note, "");
        return await start({ CLAVIGER_DATA_DIR: served.dataDir }).finally(() => rmSync(note));
      },
    },
  ],
  "a newer Claviger or another program made the tables": [
    {
      says: "it has schema 9999",
      async ends() {
        const later = "insert into schema_migrations (number, name, checksum) values (9999, 'later', 'x')";
        return start({ ...own(), DATABASE_URL: await databaseWith(later) });
      },
    },
    {
      says: "is another program's",
      async ends() {
        const theirs = "alter table schema_migrations drop column checksum";
        return start({ ...own(), DATABASE_URL: await databaseWith(theirs) });
      },
    },
  ],
  "the data folder belongs to another user, or this user cannot use it": [
    { says: "choose another folder", ends: () => start({ CLAVIGER_DATA_DIR: "/dev/null/data" }) },
    {
      says: "no folder can be made in /proc; choose another folder",
      ends: () => start({ CLAVIGER_DATA_DIR: "/proc/claviger/data" }),
    },
    {
      says: "it is a file; choose another folder",
      ends: () => start({ CLAVIGER_DATA_DIR: line.write("file", "") }),
    },
    {
      // With the folder, because sudo does not pass the environment on.
      says: "--data-dir /",
      can: asRoot,
      ends() {
        const folder = mkdtempSync(join(line.folder, "foreign-"));
        chownSync(folder, 65_534, 65_534);
        return start({ CLAVIGER_DATA_DIR: folder });
      },
    },
    {
      says: "the user has no entry in /etc/passwd",
      async ends() {
        const folder = join(line.folder, "nameless");
        using user = spyOn(process, "getuid");
        user.mockReturnValue(123_456);
        const ended = await start({ CLAVIGER_DATA_DIR: folder });
        expect(existsSync(folder)).toBe(false);
        return ended;
      },
    },
    {
      says: "something else has the name of a file of the service",
      ends() {
        const folder = join(line.folder, "strange");
        mkdirSync(join(folder, "lock"), { recursive: true });
        return start({ CLAVIGER_DATA_DIR: folder });
      },
    },
    {
      says: "must not be on a file system mounted noexec",
      can: canMount,
      ends: () => startIn("size=300m,noexec"),
    },
  ],
  "the database refuses the login, a right or a parameter of `DATABASE_URL`, or has another name": [
    {
      says: "does not exist (28000)",
      ends: () => start({ ...own(), DATABASE_URL: url.replace(/\/\/[^@]+@/, "//nobody_of_that_name@") }),
    },
    {
      says: "does not exist (3D000)",
      ends: () => start({ ...own(), DATABASE_URL: url.replace(/[^/]+$/, "no_such_database") }),
    },
    ...["options=--jit", "options=-c%20no_such_setting%3D1", "options=-c%20jit%3Dmaybe"].map((parameter) => ({
      says: "; check the parameters in DATABASE_URL, such as options=",
      ends: () => start({ ...own(), DATABASE_URL: `${url}?${parameter}` }),
    })),
  ],
  "the database cannot be reached": [
    {
      says: "nothing listens there",
      ends: () => start({ ...own(), DATABASE_URL: "postgres://claviger@127.0.0.1:1/claviger" }),
    },
  ],
  "an address is in use, or this host does not have it yet": [
    { says: "the port is in use", ends: () => start({ CLAVIGER_PORT: portOf(taken) }) },
    { says: "there is no host of that name", ends: () => start({ CLAVIGER_HOST: "nope.invalid" }) },
    {
      says: "this machine has no such address",
      ends: () => start({ CLAVIGER_HOST: "192.0.2.1" }, ["--port=28432"]),
    },
    {
      says: "this machine has no such address; choose another with --metrics-listen",
      async ends() {
        const port = String(await findFreePort());
        return await start({ CLAVIGER_PORT: port, CLAVIGER_METRICS_LISTEN: `192.0.2.1:${port}` });
      },
    },
  ],
  "another process holds the data folder": [
    {
      says: "a service runs there already",
      async ends() {
        await using _ = await served.serve();
        return await start({ CLAVIGER_DATA_DIR: served.dataDir });
      },
    },
    { says: "it is in use", ends: () => waitingToo },
  ],
  "the disk is full": [
    {
      says: "No space left on device",
      can: canMount,
      ends: () => startIn("size=1m"),
    },
  ],
  "another process migrates the database, or a backup uses its tables": [
    { says: "another process has held the migration lock", ends: () => waiting },
  ],
};

describe("claviger serve", () => {
  test("ends its process with its exit status", () => {
    const env = { PATH: "/usr/bin:/bin", CLAVIGER_LOG_FORMAT: "xml" };
    const args = ["src/main.ts", "serve", "--env-file", "/dev/null"];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, {
      cwd: ROOT,
      env,
      encoding: "utf8",
    });
    expect({ status, stdout, stderr }).toEqual({
      status: 78,
      stdout: "",
      stderr: expect.stringContaining("CLAVIGER_LOG_FORMAT must be"),
    });
  });

  test("has a case for each fault of the manual's table", () => {
    expect(Object.keys(CASES).toSorted()).toEqual(
      [...TABLE.keys()].filter((fault) => fault !== NO_RIGHT).toSorted(),
    );
  });

  const all = Object.entries(CASES).flatMap(([fault, cases]) => cases.map((each) => ({ fault, ...each })));
  for (const { fault, says, can = true, ends } of all) {
    test.if(can)(`ends with the status of the manual if ${fault}: ${says}`, async () => {
      const { status, out, err } = await ends();
      expect({ status: TABLE.get(fault), out: "", err: expect.stringContaining(says) }).toEqual({
        status,
        out,
        err,
      });
    });
  }
});

const NO_RIGHT = "this user may not use the port";

test("listenOrRefuse() says whether the cause can pass by itself", async () => {
  const codes: Record<string, unknown> = {};
  for (const code of ["EACCES", "EADDRINUSE", "EADDRNOTAVAIL"]) {
    const listen = () =>
      Promise.reject(
        listenFailure(Object.assign(new Error(code), { code }), { host: "127.0.0.1", port: 81 }),
      );
    codes[code] = await listenOrRefuse(
      { listen },
      { host: "127.0.0.1", port: 81, answer: () => new Response(), maxBodyBytes: 1, idleTimeoutSeconds: 1 },
    );
  }
  expect(TABLE.get(NO_RIGHT)).toBe(78);
  expect(codes).toMatchObject({
    EACCES: { code: "INVALID_REQUEST" },
    EADDRINUSE: { code: "SERVICE_UNAVAILABLE" },
    EADDRNOTAVAIL: { code: "SERVICE_UNAVAILABLE" },
  });
});

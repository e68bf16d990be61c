/** What an operator sees when the files of the PostgreSQL inside are damaged, before a start and while a service runs. */
import { afterEach, describe, expect, test } from "bun:test";
import {
  appendFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { bunPlatform } from "../../src/base/platform/bun/mod.ts";
import { cleanUp, query, start } from "../database/embedded_test_kit.ts";
import { until } from "../support/until.ts";
import { createCommandLine, readFindings } from "./command_line.ts";

afterEach(cleanUp);

/** Replaces the bytes of a file by others. */
function scribble(path: string): void {
  writeFileSync(
    path,
    readFileSync(path).map((_, at) => (at * 7919 + 13) % 256),
  );
}

function empty(folder: string): void {
  for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true });
}

interface Damage {
  readonly what: string;
  /** What PostgreSQL says. */
  readonly says: string;
  readonly make: (cluster: string) => void;
}

/** Damage with which PostgreSQL does not start. */
const AT_START: readonly Damage[] = [
  {
    what: "other bytes in pg_control",
    says: "FATAL: database files are incompatible with server",
    make: (cluster) => scribble(join(cluster, "global/pg_control")),
  },
  {
    what: "a pg_control of half its length",
    says: 'PANIC: could not read file "global/pg_control"',
    make: (cluster) => truncateSync(join(cluster, "global/pg_control"), 100),
  },
  {
    what: "no global",
    says: "postgres: could not find the database system",
    make: (cluster) => rmSync(join(cluster, "global"), { recursive: true }),
  },
  {
    what: "no files in pg_wal",
    says: "PANIC: could not locate a valid checkpoint record",
    make: (cluster) => empty(join(cluster, "pg_wal")),
  },
  {
    what: "no pg_wal",
    says: 'FATAL: required WAL directory "pg_wal" does not exist',
    make: (cluster) => rmSync(join(cluster, "pg_wal"), { recursive: true }),
  },
  {
    what: "no files in pg_xact",
    says: "FATAL: could not access status of transaction",
    make: (cluster) => empty(join(cluster, "pg_xact")),
  },
  {
    what: "no postgresql.conf",
    says: "could not access the server configuration file",
    make: (cluster) => rmSync(join(cluster, "postgresql.conf")),
  },
];

/** Damage with which PostgreSQL starts, and lets nobody in. */
const AT_CONNECTION: readonly Damage[] = [
  {
    what: "other bytes in a table of the catalogue",
    says: 'invalid page in block 0 of relation "base/5/1259"',
    make: (cluster) => scribble(join(cluster, "base/5/1259")),
  },
  {
    what: "no table of the catalogue",
    says: 'could not open file "base/5/1259": No such file or directory',
    make: (cluster) => rmSync(join(cluster, "base/5/1259")),
  },
  {
    what: "an empty table of the catalogue",
    says: "could not open critical system index",
    make: (cluster) => truncateSync(join(cluster, "base/5/1259"), 0),
  },
  {
    what: "no users",
    says: 'invalid page in block 0 of relation "global/1260"',
    make: (cluster) => scribble(join(cluster, "global/1260")),
  },
  {
    what: "no database",
    says: 'database "postgres" does not exist',
    make: (cluster) => rmSync(join(cluster, "base"), { recursive: true }),
  },
  {
    what: "other bytes in the shared map of files",
    says: 'relation mapping file "global/pg_filenode.map" contains invalid data',
    make: (cluster) => scribble(join(cluster, "global/pg_filenode.map")),
  },
];

describe("Damaged data", () => {
  for (const { what, says, make } of [...AT_START, ...AT_CONNECTION]) {
    test(`ends serve with 78 and one sentence, and is one row of doctor: ${what}`, async () => {
      using line = createCommandLine({ prepared: true });
      make(join(line.dataDir, "postgres"));
      // A damage that is not noticed must fail the test, not keep it waiting.
      const { status, out, err } = await line.here(["serve", "--port", "0"], { signal: "SIGTERM" });
      const sentences = err.split("\n").filter((each) => each.includes("its data is damaged"));
      expect({ status, out, sentences }).toEqual({
        status: 78,
        out: "",
        sentences: [
          expect.stringMatching(
            /^claviger: Cannot open the data folder \S+: its data is damaged: PostgreSQL said: .*; move the whole folder away, and restore a backup with `claviger restore FILE`: see "Replace lost data" in `claviger guide backups`$/,
          ),
        ],
      });
      expect(sentences[0]).toContain(says);

      const doctor = readFindings(await line.here(["doctor", "--json"], { env: { CLAVIGER_PORT: "1" } }));
      const names = doctor.findings.map(({ name }) => name);
      expect(names).toEqual(expect.arrayContaining(["program", "data folder", "disk", "clock", "database"]));
      const damaged = doctor.findings.filter(({ message }) => message.includes("damaged: "));
      expect(damaged).toMatchObject([{ name: "database", state: "fail" }]);
      expect(damaged[0]?.message).toContain(says);
    }, 90_000);
  }

  test("stays when a backup is restored there, and the refusal says what to do first", async () => {
    using line = createCommandLine({ prepared: true });
    const backup = join(line.folder, "saved.tar.zst");
    await line.here(["migrate"]);
    await line.json(["backup", backup]);
    empty(join(line.dataDir, "postgres/pg_wal"));
    const { status, err } = await line.here(["restore", backup]);
    expect({ status, err }).toMatchObject({
      status: 78,
      err: expect.stringContaining(
        "; move the whole folder away, and restore a backup with `claviger restore",
      ),
    });
    expect(existsSync(join(line.dataDir, "postgres/PG_VERSION"))).toBe(true);
    renameSync(line.dataDir, `${line.dataDir}.lost`);
    expect(await line.here(["restore", backup])).toMatchObject({ status: 0 });
  }, 90_000);

  test("is not what a wrong line in postgresql.conf is called", async () => {
    using line = createCommandLine({ prepared: true });
    writeFileSync(join(line.dataDir, "postgres/postgresql.conf"), "nonsense");
    const { status, err } = await line.here(["serve", "--port", "0"]);
    expect({ status, err }).toMatchObject({ status: 1, err: expect.stringContaining("contains errors") });
    const { of } = readFindings(await line.here(["doctor", "--json"], { env: { CLAVIGER_PORT: "1" } }));
    expect(of("database")).toMatchObject({
      state: "fail",
      message: expect.stringContaining("contains errors"),
    });
    expect(of("disk")).toBeDefined();
  }, 60_000);

  test.skipIf(bunPlatform.postgresInside()?.origin !== "source")(
    "is not what TLS in postgresql.conf is called, which the PostgreSQL of a release does not have",
    async () => {
      using line = createCommandLine({ prepared: true });
      appendFileSync(join(line.dataDir, "postgres/postgresql.conf"), "\nssl = on\n");
      const { status, err } = await line.here(["serve", "--port", "0"]);
      expect({ status, err }).toMatchObject({
        status: 1,
        err: expect.stringContaining("Remove ssl from postgresql.conf: the PostgreSQL inside has no TLS"),
      });
    },
    60_000,
  );

  test("makes a running service unhealthy, with one line in the log, and is found by doctor", async () => {
    using line = createCommandLine({ prepared: true });
    await (await line.serve()).stop();
    const made = await line.json(["keys", "issue", "--email", "ada@example.org", "--tier", "free"]);
    await line.here(["installer", "set-token"], { input: "the-token" });
    scribble(await pathOf(line.dataDir, "installer_token"));
    const service = await line.serve();
    const headers = { "X-API-Key": made.api_key };
    const ask = async () => {
      const answer = await fetch(`${service.url}/v1/installer/repo-token`, { headers });
      return { status: answer.status, body: (await answer.json()) as { error?: string } };
    };
    expect(await ask()).toMatchObject({ status: 503, body: { code: "SERVICE_UNAVAILABLE" } });
    await ask();
    const health = await until(async () => {
      const asked = await fetch(`${service.url}/api/health`);
      return asked.status === 503 ? await asked.json() : undefined;
    });
    expect(health).toMatchObject({
      status: "unhealthy",
      database: "connected",
      error: "The data is damaged",
    });
    // What is not damaged still works for the clients that come.
    const validated = await fetch(`${service.url}/v1/auth/validate`, { method: "POST", headers });
    expect(validated.status).toBe(200);

    const doctor = readFindings(await line.here(["doctor", "--json"]));
    const damaged = doctor.findings.filter(({ message }) => message.startsWith("the data is damaged: "));
    expect(damaged).toHaveLength(1);
    expect(doctor.of("service")?.message).toEndWith(": The data is damaged");
    const { err } = await service.stop();
    const said = err.split("\n").filter((each) => each.includes("its data is damaged"));
    expect(said).toEqual([
      expect.stringContaining(" error The service is not healthy: Cannot open the data folder "),
    ]);
  }, 90_000);
});

describe("A data folder that goes away while the service runs", () => {
  test("is said once, clients get 503, and the service ends with 78 after a minute", async () => {
    using line = createCommandLine({ prepared: true });
    let shiftMs = 0;
    const clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + shiftMs };
    const service = await line.serve([], { clock });
    const { api_key } = await line.json(["keys", "issue", "--email", "ada@example.org", "--tier", "free"]);
    const validate = () =>
      fetch(`${service.url}/v1/auth/validate`, { method: "POST", headers: { "X-API-Key": api_key } });
    expect((await validate()).status).toBe(200);
    rmSync(join(line.dataDir, "postgres"), { recursive: true });
    const checkHealth = async () => {
      const answer = await fetch(`${service.url}/api/health`);
      return { status: answer.status, body: (await answer.json()) as { error?: string } };
    };
    // Until PostgreSQL has ended, health can say only that the database does not answer.
    await until(async () => (await checkHealth()).body.error === "The folder of the database is gone");
    // A cached key is trusted for a second.
    await until(async () => (await validate()).status === 503 || Bun.sleep(100));
    expect(await checkHealth()).toMatchObject({
      status: 503,
      body: { error: "The folder of the database is gone" },
    });
    await Bun.sleep(1_500);
    shiftMs = 60_000;
    await until(async () => !(await fetch(`${service.url}/api/health`).catch(() => undefined)));
    const { status, err } = await service.stop();
    expect(status).toBe(78);
    const lines = err.split("\n").filter((each) => each.includes("went away"));
    expect(lines).toEqual([
      expect.stringContaining("error The folder of the database went away: no request is answered"),
      expect.stringMatching(
        /^claviger: Cannot go on: \S+ went away while the service ran, and did not come back; /,
      ),
    ]);
    // Its next start finds what is left of the installation.
    expect(await line.here(["serve", "--port", "0"])).toMatchObject({
      status: 78,
      err: expect.stringContaining("its database is lost: it has installation and secret"),
    });
  }, 90_000);
});

/** Returns the file of a table. */
async function pathOf(dataDir: string, table: string): Promise<string> {
  const server = await start(dataDir, { ownBinaries: true });
  const [row] = await query(server.address, `select pg_relation_filepath('${table}') as path`);
  await server.stop(3000);
  return join(dataDir, "postgres", String(row?.path));
}

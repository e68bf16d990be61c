/**
 * Tests where the data is: a folder without a service, an operator's own PostgreSQL, and the secret of
 * each.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { createExternalDatabase } from "../support/external_database.ts";
import { findFreePort } from "../support/find_free_port.ts";
import { until } from "../support/until.ts";
import { useForAll } from "../support/use.ts";
import { createCommandLine, refusalOf } from "./command_line.ts";
import { postJson, useCommandLine } from "./use_command_line.ts";

const ISSUE = ["keys", "issue", "--email", "ada@example.org", "--tier", "free"];

// A service ran in this folder, which has a secret and a key.
const line = useCommandLine({ prepared: true });
beforeAll(async () => {
  await using _ = await line.serve();
  await line.json(ISSUE);
});

const SECRET = createHash("sha256").update("one").digest("hex");
const OTHER_SECRET = createHash("sha256").update("two").digest("hex");

describe("claviger in a data folder without a service", () => {
  const idle = useCommandLine({ prepared: true });
  beforeAll(() => idle.json(["migrate"]));

  test("makes the folder by migrate, and runs one command after another in it", async () => {
    using fresh = createCommandLine();
    expect((await fresh.json(["migrate"]))[0]).toMatchObject({ number: 1 });
    const issued = await fresh.json(ISSUE);
    expect(await fresh.json(["keys", "list"])).toMatchObject([{ id: issued.id }]);
    expect(existsSync(join(fresh.dataDir, "postgres/postmaster.pid"))).toBe(false);
  });

  test("lets two simultaneous commands take turns", async () => {
    const both = await Promise.all([idle.here(["keys", "list"]), idle.here(["accounts", "list"])]);
    expect(both.map(({ status }) => status)).toEqual([0, 0]);
  });

  test("refuses installer set-token until a first start has made a secret", async () => {
    const ended = await idle.here(["installer", "set-token"], { input: "token" });
    expect(refusalOf(ended)).toBe(
      `The file ${idle.dataDir}/secret is missing: put it back, or start the service once to make it`,
    );
  });

  test("leaves no process and no change after a signal while it starts", async () => {
    const args = ["keys", "issue", "--email", "late@example.org", "--tier", "free"];
    const ended = await idle.here(args, { signal: "SIGTERM" });
    expect(refusalOf(ended)).toBe("Stopped by SIGTERM: nothing was changed");
    expect(existsSync(join(idle.dataDir, "postgres/postmaster.pid"))).toBe(false);
  });
});

describe("claviger serve in a data folder", () => {
  const serveIn = (folder: string, options: readonly string[]) =>
    line.run(["serve", ...options, "--data-dir", folder, "--env-file", "/dev/null"]);

  test("makes a secret that only its owner can read, and stops in order at a signal", async () => {
    using own = createCommandLine({ prepared: true });
    await own.json(["migrate"]);
    await own.json(ISSUE);
    const service = await own.serve();
    const path = join(own.dataDir, "secret");
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readFileSync(path, "utf8")).toMatch(/^[0-9a-f]{64}\n$/);
    expect(service.out).not.toContain("There are no keys yet");
    expect((await fetch(`${service.url}/api/health`)).status).toBe(200);
    const { status, err } = await service.stop();
    expect(status).toBe(0);
    expect(err).toMatch(/ info {2}Stopping signal=SIGTERM\n.* info {2}Stopped\n$/);
    await expect(fetch(`${service.url}/api/health`)).rejects.toThrow();
  });

  test("is no failure if a signal to every process ends its initdb, too", async () => {
    using own = createCommandLine();
    const bin = join(own.folder, "bin");
    mkdirSync(bin, { mode: 0o755 });
    const programs = {
      postgres: "echo 'postgres (PostgreSQL) 18.6'",
      initdb:
        "[ \"$1\" = --version ] && exec echo 'initdb (PostgreSQL) 18.6'; echo 'caught signal' >&2; exit 1",
    };
    for (const [name, text] of Object.entries(programs))
      writeFileSync(join(bin, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    const env = { CLAVIGER_POSTGRES_BIN: bin };
    const stopped = await own.here(["serve", "--port", "0"], { env, signal: "SIGTERM" });
    expect(stopped).toMatchObject({ status: 0, out: "" });
    expect(stopped.err).toMatch(/ info {2}Stopped before the service had started signal=SIGTERM\n$/);
    // Without a signal to the service it is a failure.
    const failed = await own.here(["serve", "--port", "0"], { env });
    expect(failed).toMatchObject({ status: 1, err: expect.stringContaining("caught signal") });
  });

  test("reports that a host name does not exist", async () => {
    const ended = await line.here(["serve", "--host", "nope.invalid", "--port", "8080"]);
    expect(refusalOf(ended)).toBe(
      "Cannot listen on nope.invalid:8080: there is no host of that name; choose another with --host or --port",
    );
  });

  test("checks its port before it makes any file, and leaves no file behind", async () => {
    await using other = createServer().listen(0, "127.0.0.1");
    const { port } = other.address() as { port: number };
    const taken = `127.0.0.1:${port}`;
    const holder = `${readFileSync("/proc/self/comm", "utf8").trim()} (process ${process.pid})`;
    const fresh = join(line.folder, "fresh");
    const cases: [options: string[], remedy: string][] = [
      [["--port", String(port)], "--host or --port"],
      [["--port", "0", "--metrics-listen", taken], "--metrics-listen"],
      [["--port", "0", "--admin-listen", taken], "--admin-listen"],
    ];
    for (const [options, remedy] of cases) {
      expect(refusalOf(await serveIn(fresh, options))).toBe(
        `Cannot listen on ${taken}: the port is in use by ${holder}; choose another with ${remedy}`,
      );
    }
    const free = `127.0.0.1:${await findFreePort()}`;
    const same = ["--port", "0", "--metrics-listen", free, "--admin-listen", free];
    expect(refusalOf(await serveIn(fresh, same))).toEndWith("choose another with --admin-listen");
    expect(existsSync(fresh)).toBe(false);
  });

  test("refuses a listener for operators that others would reach without https, before it makes any file", async () => {
    const fresh = join(line.folder, "open");
    const place = ["--data-dir", fresh, "--env-file", "/dev/null"];
    const ended = await serveIn(fresh, ["--port", "0", "--admin-listen", "0.0.0.0:0"]);
    expect(ended.status).toBe(78);
    expect(ended.err).toContain("needs CLAVIGER_ADMIN_URL with https");
    const checked = await line.run(["config", "check", ...place], {
      env: { CLAVIGER_ADMIN_LISTEN: "0.0.0.0:0", CLAVIGER_ADMIN_URL: "https://admin.example.org" },
    });
    expect([checked.status, checked.err]).toEqual([1, expect.stringContaining("set CLAVIGER_TLS_CERT and")]);
    expect(existsSync(fresh)).toBe(false);
  });

  test("refuses another secret than the first start's, in a setting or in the folder", async () => {
    const given = await line.here(["serve", "--port", "0"], { env: { CLAVIGER_SECRET: SECRET } });
    expect(refusalOf(given)).toStartWith("Cannot use this secret: the database was sealed with another one");

    const path = join(line.dataDir, "secret");
    const kept = readFileSync(path, "utf8");
    writeFileSync(path, `${OTHER_SECRET}\n`);
    expect(refusalOf(await line.here(["serve", "--port", "0"]))).toStartWith("Cannot use this secret");
    // A lost secret is not replaced by a new one either.
    rmSync(path);
    for (const args of [
      ["serve", "--port", "0"],
      ["installer", "set-token"],
    ]) {
      expect(refusalOf(await line.here(args, { input: "token" }))).toBe(
        `Cannot open what the database was sealed with: there is no file secret in ${line.dataDir}, and no ` +
          "secret was given; put the one of the first start back, or name it by CLAVIGER_SECRET_FILE",
      );
      expect(existsSync(path)).toBe(false);
    }
    writeFileSync(path, "short\n", { mode: 0o600 });
    expect(refusalOf(await line.here(["serve", "--port", "0"]))).toBe(
      `Cannot use the secret of ${path}: it is neither hexadecimal nor valid base64; it must be 32 random ` +
        "bytes, such as `openssl rand -hex 32` prints",
    );
    writeFileSync(path, kept);
  });

  test("refuses an unusable secret before it makes any file", async () => {
    const dataDir = join(line.folder, "untouched");
    const args = ["serve", "--port", "0", "--data-dir", dataDir];
    const ended = await line.run(args, { env: { CLAVIGER_SECRET: "short" } });
    expect(refusalOf(ended)).toStartWith("Cannot use the secret of CLAVIGER_SECRET: ");
    expect(existsSync(dataDir)).toBe(false);
  });
});

describe("claviger with an operator's own PostgreSQL", () => {
  /** A database with an address that has a password, which no output may show, and with the name that outputs show. */
  async function openTarget(options?: { readonly empty: boolean }) {
    const made = await createExternalDatabase(options);
    const address = new URL(made.url);
    address.password = "do-not-show";
    return { ...made, url: address.href, name: `${address.host}${address.pathname}` };
  }

  // A service ran with this database, which has a key.
  const target = useForAll(openTarget);
  beforeAll(async () => {
    const env = { DATABASE_URL: target.url, CLAVIGER_SECRET: SECRET };
    await using _ = await line.serve([], { env });
    await line.json(ISSUE, { env });
  });

  const refusedWith = async (args: readonly string[], env: Record<string, string>) => {
    const sentence = refusalOf(await line.here(args, { env }));
    expect(sentence).not.toContain("do-not-show");
    return sentence;
  };

  test("refuses to serve without a secret, before it touches the database", async () => {
    await using empty = await openTarget({ empty: true });
    expect(await refusedWith(["serve"], { DATABASE_URL: empty.url })).toStartWith(
      "The database is external, so the secret must be given: name the file of the first start's secret by",
    );
    const status = await line.json(["migrate", "--status"], { env: { DATABASE_URL: empty.url } });
    expect(status[0]).toEqual({ number: 1, name: "0001_licensing", applied_at: null });
  });

  test("refuses commands on an empty database", async () => {
    await using empty = await openTarget({ empty: true });
    expect(await refusedWith(["keys", "list"], { DATABASE_URL: empty.url })).toStartWith(
      "The database is empty",
    );
  });

  test("serves from it, and commands find it through the service's settings file", async () => {
    await using empty = await openTarget({ empty: true });
    const settings = line.write("own.env", `DATABASE_URL='${empty.url}'\nCLAVIGER_SECRET=${SECRET}\n`);
    await using service = await line.serve(["--env-file", settings]);
    expect(service.out).toContain(`Its data is in the PostgreSQL at ${empty.name}\n`);
    expect(service.out).not.toContain("do-not-show");
    expect(service.out).toContain(`--tier research --env-file ${settings}\n`);
    const args = ["keys", "issue", "--email", "own@example.org", "--tier", "free", "--json"];
    const { status, out } = await line.run([...args, "--env-file", settings]);
    expect(status).toBe(0);
    const { api_key } = JSON.parse(out);
    expect(await postJson(`${service.url}/v1/auth/validate`, { api_key })).toMatchObject({ status: 200 });
  });

  test("goes on serving if the connection is lost at the moment of its start", async () => {
    const env = { DATABASE_URL: target.url, CLAVIGER_SECRET: SECRET };
    const service = await line.serve([], { env, onOut: () => target.proxy.set("closing") });
    target.proxy.set("none");
    await until(async () => (await fetch(`${service.url}/api/health`)).ok);
    expect((await service.stop()).status).toBe(0);
  });

  test("goes on serving if a hint after its start fails, but refuses a demo that cannot look for keys", async () => {
    // Only the hints read this column: every other statement of the start succeeds.
    const { database } = target;
    await database.query((sql) => sql`alter table accounts rename email to elsewhere`);
    const env = { DATABASE_URL: target.url, CLAVIGER_SECRET: SECRET };
    const operators = ["--admin-listen", "127.0.0.1:0"];
    for (const args of [[], ["--demo", ...operators]]) {
      const service = await line.serve(args, { env, columns: 100 });
      expect((await fetch(`${service.url}/api/health`)).status).toBe(200);
      expect((await service.stop()).status).toBe(0);
    }
    const refused = await line.here(["serve", "--port", "0", "--demo"], {
      env,
      columns: 100,
      // Ends a service that starts in spite of it.
      signal: "SIGTERM",
    });
    await database.query((sql) => sql`alter table accounts rename elsewhere to email`);
    expect(refused).toMatchObject({ status: 1, out: "", err: expect.stringContaining('"email"') });
  });

  test("hosts a model file in a new data folder", async () => {
    const folder = join(line.folder, "new/data");
    const env = { DATABASE_URL: target.url, CLAVIGER_PUBLIC_URL: "https://licenses.example.org" };
    const file = line.write("hosted.bin", "weights");
    const place = ["--data-dir", folder, "--env-file", "/dev/null"];
    const none = await line.run(["models", "verify", ...place], { env });
    expect(none.out).toBe("No model files are hosted here, so there is nothing to verify\n");
    const model = ["--name", "hosted", "--version", "1", "--type", "SvcLDA", "--paradigm", "p300"];
    const shape = ["--n-features", "4", "--n-classes", "2", "--requires-license", "free"];
    const added = await line.run(["models", "add", "--file", file, ...model, ...shape, ...place], { env });
    expect(added.err).toBe("");
    const modes = [folder, join(line.folder, "new")].map((path) => statSync(path).mode & 0o777);
    expect(modes).toEqual([0o700, 0o755]);
    const { status, out } = await line.run(["models", "verify", ...place], { env });
    expect([status, out]).toEqual([0, expect.stringContaining("good")]);
  });

  test("names host and port, and never the password, if it cannot be reached", async () => {
    const closed = await line.here(["keys", "list"], {
      env: { DATABASE_URL: "postgres://u:do-not-show@127.0.0.1:1/keys" },
    });
    expect(refusalOf(closed)).toMatch(
      /^Cannot reach the database at 127.0.0.1:1\/keys: nothing listens there.*; check that it runs and that DATABASE_URL is right$/,
    );
    const env = { DATABASE_URL: "postgres://u:do-not-show@nowhere.invalid/keys", CLAVIGER_SECRET: SECRET };
    for (const args of [["keys", "list"], ["serve", "--port", "0"], ["migrate"]]) {
      expect(await refusedWith(args, env)).toMatch(
        /^Cannot reach the database at nowhere.invalid:5432\/keys: (there is no host of that name; correct the host|its name cannot be looked up; check that this machine can look up names, and the host) in DATABASE_URL$/,
      );
    }
    target.proxy.set("closing");
    expect(await refusedWith(["keys", "list"], { DATABASE_URL: target.url })).toStartWith(
      `Cannot reach the database at ${target.name}: `,
    );
    target.proxy.set("none");
  }, 20_000);

  test("reports the server's refusal", async () => {
    const missing = target.url.replace(/[^/]+$/, "no_such_database");
    expect(await refusedWith(["keys", "list"], { DATABASE_URL: missing })).toMatch(
      /^The database at \S+\/no_such_database refused: database "no_such_database" does not exist \(3D000\); create it/,
    );
  });

  test("refuses a schema of another version", async () => {
    await using other = await openTarget();
    await other.database.query((sql) => sql`update schema_migrations set checksum = 'x' where number = 2`);
    for (const args of [["keys", "list"], ["migrate"], ["migrate", "--status"]]) {
      expect(await refusedWith(args, { DATABASE_URL: other.url })).toStartWith(
        "Cannot use this database: its migration 2 (0002_usage) is not the one inside",
      );
    }
  });
});

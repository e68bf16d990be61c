/** Tests the commands with which operators examine a service: `config check`, `health` and `doctor`. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { chownSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { VERSION } from "../../src/base/version.ts";
import { makeCertificate } from "../support/certificates.ts";
import { createExternalDatabase } from "../support/external_database.ts";
import { findFreePort } from "../support/find_free_port.ts";
import { isRoot } from "../support/is_root.ts";
import { until } from "../support/until.ts";
import {
  createCommandLine,
  type RunningService,
  type RunOptions,
  readFindings,
  refusalOf,
  usageErrorOf,
} from "./command_line.ts";

const asRoot = isRoot("doctor on data folders of other users");

const SECRET = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const line = createCommandLine({ prepared: true });
let service: RunningService;

beforeAll(async () => {
  service = await line.serve();
});
// The test before may have delayed the pulse for longer than it is trusted: its commands run in this process.
beforeEach(() => until(async () => (await fetch(`${service.url}/api/health`)).ok));
afterAll(async () => {
  await service.stop();
  expect(existsSync(join(line.dataDir, "serving"))).toBe(false);
  line.remove();
});

describe("claviger config check", () => {
  test("shows each value with its source, and no secret", async () => {
    const file = line.write("some.env", "CLAVIGER_PORT=9000\nCLAVIGER_HOST=::1\n");
    const env = {
      CLAVIGER_HOST: "0.0.0.0",
      CLAVIGER_SECRET: SECRET,
      DATABASE_URL: "postgres://me:hidden1@db,two:5433/c?application_name=shop",
    };
    const { status, out } = await line.run(["config", "check", "--env-file", file, "--json"], { env });
    expect(status).toBe(0);
    const { settings } = JSON.parse(out) as { settings: { name: string; value: string; source: string }[] };
    const of = (name: string) => settings.find((setting) => setting.name === name);
    expect(of("CLAVIGER_PORT")).toEqual({ name: "CLAVIGER_PORT", value: "9000", source: file });
    expect(of("CLAVIGER_HOST")).toMatchObject({ value: "0.0.0.0", source: "environment" });
    expect(of("CLAVIGER_BRAND")).toMatchObject({ value: "svc", source: "default" });
    expect(of("CLAVIGER_SECRET")).toMatchObject({ value: "********" });
    expect(of("DATABASE_URL")).toMatchObject({
      value: "postgres://me:********@db,two:5433/c?application_name=shop",
    });
    expect(out).not.toMatch(/hidden|9f86d0/);
  });

  test("recognises the settings that a service manager gives", async () => {
    const env = { STATE_DIRECTORY: "/var/lib/somewhere" };
    const { out } = await line.run(["config", "check", "--env-file", "/dev/null"], { env });
    expect(out).toMatch(/CLAVIGER_DATA_DIR +STATE_DIRECTORY +\/var\/lib\/somewhere\n/);
  });

  test("shows a setting on one line of a terminal of 80 columns, if it is not very long", async () => {
    const place = ["--env-file", "/dev/null", "--data-dir", "/srv/data"];
    const { out } = await line.run(["config", "check", ...place], { columns: 80 });
    const lines = out.trimEnd().split("\n");
    expect(lines.every((text) => text.length <= 80)).toBe(true);
    expect(lines.filter((text) => !text.startsWith("CLAVIGER_"))).toEqual([
      expect.stringMatching(/^NAME +SOURCE +VALUE$/),
      expect.stringMatching(/^DATABASE_URL /),
      expect.stringMatching(/^ {2}admin=/),
    ]);
  });

  test.each([
    [{ CLAVIGER_PORT: "http" }, "CLAVIGER_PORT must be a whole number"],
    [{ CLAVIGER_SECRET: "short" }, "Cannot use the secret of CLAVIGER_SECRET"],
    [{ CLAVIGER_TLS_CERT: "/nowhere" }, "CLAVIGER_TLS_CERT is given without CLAVIGER_TLS_KEY"],
    [
      { CLAVIGER_TLS_CERT: "/nowhere", CLAVIGER_TLS_KEY: "/nowhere" },
      "Cannot use TLS: the certificate /nowhere",
    ],
    [{ DATABASE_URL: "postgres://db/c" }, "The database is external, so the secret must be given"],
  ])("refuses what a service would refuse: %j", async (env, sentence) => {
    const ended = await line.run(["config", "check", "--env-file", "/dev/null"], {
      env: env as RunOptions["env"] & {},
    });
    expect(ended.status).toBe(1);
    expect(ended.err).toStartWith(`claviger: ${sentence}`);
    expect(ended.err).toMatch(/^[^\n]+\n$/);
    // The other values are shown too: the cause may lie in another setting than the refused one.
    expect(ended.out).toMatch(/^NAME +SOURCE +VALUE\n/);
    for (const name of Object.keys(env))
      expect(ended.out).toMatch(new RegExp(`\n${name} +environment +\\S+\n`));
  });

  test("refuses an address of another program with the same sentence as migrate and serve", async () => {
    const env = { DATABASE_URL: "postgres://me@db/c?schema=public", CLAVIGER_SECRET: SECRET };
    const sentences = [["config", "check"], ["migrate"], ["serve"]].map(
      async (args) => (await line.run([...args, "--env-file", "/dev/null"], { env })).err,
    );
    expect(new Set(await Promise.all(sentences))).toEqual(
      new Set([
        "claviger: Cannot use DATABASE_URL: Claviger does not support its parameter schema: remove it; " +
          "a setting of the server goes into options=, such as options=-c%20jit%3Doff; it is set in the environment\n",
      ]),
    );
  });

  test.each(["[/c", "db/c?password=hidden4"])("shows no password of the wrong address at %s", async (at) => {
    const env = {
      DATABASE_URL: `postgres://me:hidden1@${at}`,
      CLAVIGER_GITHUB_URL: "https://me:hidden2@api.example.org",
      CLAVIGER_PUBLIC_URL: "https://licenses.example.org/?token=hidden3",
    };
    const { status, out } = await line.run(["config", "check", "--env-file", "/dev/null", "--json"], { env });
    expect(status).toBe(1);
    expect(JSON.parse(out).error).toBeString();
    expect(out).not.toContain("hidden");
  });

  test("reports only the error if the settings file cannot be read", async () => {
    const file = line.write("unknown.env", "CLAVIGER_NOTHING=1\n");
    expect(refusalOf(await line.run(["config", "check", "--env-file", file]))).toStartWith(
      "CLAVIGER_NOTHING is not a setting",
    );
  });
});

describe("claviger health", () => {
  test("says that a service is healthy", async () => {
    const { status, out } = await line.run(["health", "--url", service.url]);
    expect([status, out]).toEqual([0, `Healthy: ${service.url}/api/health, database connected\n`]);
    const json = await line.run(["health", "--url", `${service.url}/api/health`, "--json"]);
    expect(JSON.parse(json.out)).toMatchObject({ healthy: true, http_status: 200, error: null });
  });

  test("ends with 1 if no server answers, and if another program answers", async () => {
    expect(refusalOf(await line.run(["health", "--url", "http://127.0.0.1:1"]))).toBe(
      "Not healthy: http://127.0.0.1:1/api/health: nothing listens there",
    );
    await using other = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("hello") });
    expect(refusalOf(await line.run(["health", "--url", other.url.href]))).toContain(
      "another program answers there, not Claviger (200)",
    );
  });

  test("waits for a service that is starting, but not longer than told", async () => {
    let isHealthy = false;
    await using late = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () =>
        isHealthy
          ? Response.json({ status: "healthy", database: "connected" })
          : Response.json({ status: "unhealthy", database: "connected", error: "not yet" }, { status: 503 }),
    });
    const url = late.url.href;
    const beganMs = performance.now();
    expect(refusalOf(await line.run(["health", "--url", url, "--wait", "400ms"]))).toContain("not yet");
    expect(performance.now() - beganMs).toBeWithin(100, 10_000);
    setTimeout(() => {
      isHealthy = true;
    }, 400);
    expect((await line.run(["health", "--url", url, "--wait", "5s"])).status).toBe(0);
  });

  test("trusts only the given certificate", async () => {
    const [own, other] = [makeCertificate(line.folder, "own"), makeCertificate(line.folder, "other")];
    const secure = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      tls: { cert: own.certificate, key: own.privateKey },
      fetch: () => Response.json({ status: "healthy", database: "connected" }),
    });
    const url = `https://127.0.0.1:${secure.port}`;
    expect((await line.run(["health", "--url", url, "--ca", own.certFile])).status).toBe(0);
    const typed = { input: own.certificate };
    expect((await line.run(["health", "--url", url, "--ca", "-"], typed)).status).toBe(0);
    const long = { input: `${own.certificate}${"\n".repeat(1024 * 1024)}` };
    expect(refusalOf(await line.run(["health", "--url", url, "--ca", "-"], long))).toEndWith(
      "Cannot read the certificates of --ca -: it is too large",
    );
    // health does not wait for errors that waiting cannot repair.
    const beganMs = performance.now();
    const refused = (...args: string[]) => line.run(["health", "--url", url, "--wait", "20s", ...args]);
    expect(refusalOf(await refused("--ca", other.certFile))).toEndWith(
      "its certificate is not signed by a certificate that --ca names",
    );
    expect(refusalOf(await refused())).toContain("with --ca");
    expect(performance.now() - beganMs).toBeLessThan(15_000);
    await secure.stop(true);
    expect(refusalOf(await line.run(["health", "--url", url, "--ca", "/nowhere"]))).toContain("no such file");
  });

  test("refuses a wrong address and a wrong time", async () => {
    for (const args of [
      [],
      ["--url", "localhost"],
      ["--url", "ftp://x"],
      ["--url", service.url, "--wait", "soon"],
    ])
      usageErrorOf(await line.run(["health", ...args]));
  });
});

describe("claviger doctor", () => {
  async function doctor(env: Record<string, string> = {}, at = line) {
    const ended = await at.here(["doctor", "--json"], { env });
    expect(JSON.parse(ended.out).ok).toBe(ended.status === 0);
    return readFindings(ended);
  }
  const port = () => ({ CLAVIGER_PORT: new URL(service.url).port });

  test("finds no fault while a service runs, whatever address the service listens on", async () => {
    const { status, findings, of } = await doctor();
    expect(findings.filter(({ state }) => state === "fail")).toEqual([]);
    expect(status).toBe(0);
    expect(of("service")).toMatchObject({ state: "ok", message: `healthy at ${service.url}` });
    expect(of("database")?.message).toMatch(/^PostgreSQL 18\.\d+ in /);
    for (const name of ["durability", "writes", "database clock", "schema", "secret", "disk", "clock"])
      expect(of(name)?.state).toBe("ok");
    expect(of("installer token")).toMatchObject({
      state: "warn",
      remedy: expect.stringContaining("set-token"),
    });
  });

  test("breaks its sentences between words on a terminal of 80 columns, and aligns their lines", async () => {
    const { out } = await line.here(["doctor"], { columns: 80, env: { NO_COLOR: "1" } });
    const lines = out.trimEnd().split("\n");
    // A path is not broken, so that it can be copied.
    for (const text of lines.filter((each) => !/\/\S{40}/.test(each)))
      expect(text.length).toBeLessThanOrEqual(80);
    const [margin = ""] =
      /^.{4} {2}clock +(?=\d)/.exec(lines.find((text) => / {2}clock /.test(text)) ?? "") ?? [];
    const further = lines.filter((text) => text.startsWith("   "));
    expect(further.length).toBeGreaterThan(2);
    for (const text of further) expect(text).toMatch(new RegExp(`^ {${margin.length}}(→ | {2})?\\S`));
  });

  test("does not mistake another installation's service for its own", async () => {
    using alone = createCommandLine();
    const serviceOf = async (env: Record<string, string>) => (await doctor(env, alone)).of("service");
    const none = `no service runs from ${alone.dataDir}`;
    const name = readFileSync("/proc/self/comm", "utf8").trim();
    const inUse = (at: number | string | undefined) =>
      `port ${at} is in use by ${name} (process ${process.pid})`;
    expect(await serviceOf(port())).toMatchObject({
      state: "warn",
      message: `${none}; at ${service.url} another installation answers; ${inUse(new URL(service.url).port)}`,
      remedy: expect.stringContaining("--port"),
    });
    expect(await serviceOf({ CLAVIGER_PORT: "1" })).toMatchObject({ state: "warn", message: none });
    expect(await serviceOf({ CLAVIGER_PORT: "0" })).toMatchObject({ state: "warn", message: none });
    await using other = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("hello") });
    const message = `${none}; at http://127.0.0.1:${other.port} another program answers; ${inUse(other.port)}`;
    expect(await serviceOf({ CLAVIGER_PORT: `${other.port}` })).toMatchObject({ state: "warn", message });
    const silent = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const { port: taken } = silent.address() as { port: number };
    expect(await serviceOf({ CLAVIGER_PORT: `${taken}` })).toMatchObject({
      state: "warn",
      message: `${none}; ${inUse(taken)}`,
      remedy: expect.stringContaining("with another --port"),
    });
    silent.close();
  });

  test("ignores the note that an ended service left behind", async () => {
    const path = join(line.dataDir, "serving");
    const note = readFileSync(path, "utf8");
    const { pid, startedAt, ...at } = JSON.parse(note);
    const stale = [
      { ...at, pid: 2 ** 22 + 1, startedAt },
      { ...at, pid: 1, startedAt },
      { ...at, pid, startedAt: "1" },
      { pid, startedAt },
      "nothing",
    ];
    const expectNone = async () =>
      expect((await doctor({ CLAVIGER_PORT: "1" })).of("service")).toMatchObject({
        state: "warn",
        message: `no service runs from ${line.dataDir}`,
      });
    for (const old of [...stale.map((old) => JSON.stringify(old)), "{", "", note + " ".repeat(20_000)]) {
      writeFileSync(path, old);
      await expectNone();
    }
    rmSync(path);
    expect(Bun.spawnSync(["mkfifo", path]).exitCode).toBe(0);
    await expectNone();
    rmSync(path);
    writeFileSync(path, note);
    expect((await doctor({ CLAVIGER_PORT: "1" })).of("service")).toMatchObject({ state: "ok" });
  });

  test("examines the certificate that the service got and doctor did not", async () => {
    using unit = createCommandLine({ prepared: true });
    const credentials = join(unit.folder, "credentials");
    mkdirSync(credentials);
    const { certFile, keyFile } = makeCertificate(credentials, "licenses.example.org", 3);
    renameSync(certFile, join(credentials, "claviger-tls-cert"));
    renameSync(keyFile, join(credentials, "claviger-tls-key"));
    const files = makeCertificate(unit.folder, "options", 60);
    {
      await using running = await unit.serve([], { env: { CREDENTIALS_DIRECTORY: credentials } });
      const { of } = await doctor({}, unit);
      expect(of("tls")).toMatchObject({ state: "warn", message: expect.stringContaining("expires at") });
      expect(of("service")).toMatchObject({ state: "ok", message: `healthy at ${running.url}` });
      expect(running.url).toStartWith("https://");
    }
    await using _ = await unit.serve(["--tls-cert", files.certFile, "--tls-key", files.keyFile]);
    expect((await doctor({}, unit)).of("tls")).toMatchObject({ state: "ok" });
  });

  test("finds the service of an external database by its data folder, if it has one", async () => {
    await using target = await createExternalDatabase({ empty: true });
    using outside = createCommandLine();
    const env = { DATABASE_URL: target.url, CLAVIGER_SECRET: SECRET };
    const serviceOf = async () => (await doctor(env, outside)).of("service")?.message;
    const noFolder = await outside.serve([], { env: { ...env, CLAVIGER_HOST: "127.0.0.2" } });
    expect(await serviceOf()).not.toContain(noFolder.url);
    const { hostname, port } = new URL(noFolder.url);
    Object.assign(env, { CLAVIGER_HOST: hostname, CLAVIGER_PORT: port });
    expect(await serviceOf()).toBe(
      `healthy at ${noFolder.url}, the address in the settings: it may be another installation`,
    );
    expect(existsSync(outside.dataDir)).toBe(false);
    await noFolder.stop();

    mkdirSync(outside.dataDir);
    await using withFolder = await outside.serve([], { env });
    expect(await serviceOf()).toBe(`healthy at ${withFolder.url}`);
  });

  test("warns if clients cannot get the address of a hosted model", async () => {
    expect((await doctor()).of("public address")).toMatchObject({
      state: "ok",
      message: expect.stringContaining("no model files are hosted"),
    });
    const file = line.write("model.bin", "weights");
    const model = ["--name", "p300_hosted", "--version", "1", "--type", "SvcLDA", "--paradigm", "p300"];
    const shape = ["--n-features", "8", "--n-classes", "2", "--requires-license", "free"];
    const env = { CLAVIGER_PUBLIC_URL: "https://licenses.example.org" };
    await line.json(["models", "add", "--file", file, ...model, ...shape], { env });
    expect((await doctor()).of("public address")).toMatchObject({
      state: "warn",
      message: "none is set: clients get no address to download the hosted model files from (1 so far)",
      remedy: expect.stringContaining("CLAVIGER_PUBLIC_URL"),
    });
    expect((await doctor(env)).of("public address")).toMatchObject({
      state: "ok",
      message: "https://licenses.example.org, as set: not called from here",
    });
    for (const url of ["http://127.0.0.1:8080", "http://localhost", "https://[::1]:8443"])
      expect((await doctor({ CLAVIGER_PUBLIC_URL: url })).of("public address")).toMatchObject({
        state: "warn",
        message: `${url}, as set: only this machine reaches it, so messages for customers lack it`,
        remedy: expect.stringContaining("CLAVIGER_PUBLIC_URL"),
      });
    // A running demo notes the address that it gives to clients.
    const path = join(line.dataDir, "serving");
    const note = readFileSync(path, "utf8");
    const demoUrl = service.url;
    writeFileSync(path, JSON.stringify({ ...JSON.parse(note), demoUrl }));
    const other = model.map((word) => (word === "p300_hosted" ? "p300_demo" : word));
    await line.json(["models", "add", "--file", file, ...other, ...shape]);
    expect((await doctor()).of("public address")).toMatchObject({
      state: "ok",
      message: `${demoUrl}, where the demo listens; for other machines set CLAVIGER_PUBLIC_URL`,
    });
    writeFileSync(path, note);
    await line.json(["models", "retire", "p300_demo", "1"]);
    await line.json(["models", "retire", "p300_hosted", "1"]);
    expect((await doctor()).of("public address")).toMatchObject({ state: "ok" });
  });

  test("warns if the message for customers cannot be used, and names its file", async () => {
    const messageOf = async (env = {}) => (await doctor(env)).of("key message");
    expect(await messageOf()).toMatchObject({ state: "ok", message: "the usual one" });
    const file = line.write("message.txt", "Hello {name}, here is {key}");
    const env = { CLAVIGER_CUSTOMER_MESSAGE_FILE: file };
    expect(await messageOf(env)).toMatchObject({ state: "ok", message: `that of ${file}` });
    line.write("message.txt", "Hello {name}");
    expect(await messageOf(env)).toEqual({
      name: "key message",
      state: "warn",
      message: `Cannot use the message in ${file}: it has no {key}; the console shows the usual message`,
      remedy: "correct the file: it is read each time",
    });
  });

  test("knows where clients get the models of a demo that runs", async () => {
    using demo = createCommandLine({ prepared: true });
    const port = String(await findFreePort());
    await using _ = await demo.serve(["--demo", "--port", port]);
    expect((await doctor({}, demo)).of("public address")).toMatchObject({
      state: "ok",
      message: `http://127.0.0.1:${port}, where the demo listens; for other machines set CLAVIGER_PUBLIC_URL`,
    });
  });

  test("prints one line per finding, and the remedy for each fault", async () => {
    const { out } = await line.here(["doctor"], { env: port() });
    expect(out).toStartWith(
      `ok    program          ${VERSION}, installed as the source\nok    configuration  `,
    );
    expect(out).toMatch(
      /\nwarn {2}installer token +no token is set[^\n]*\n +→ `claviger installer set-token/,
    );
    const coloured = await line.here(["doctor"], { env: port(), columns: 80 });
    expect(coloured.out).toStartWith("\u001b[32mok  \u001b[39m  program ");
    expect(coloured.out).toContain("\n\u001b[33mwarn\u001b[39m  installer token ");
    // Only standard error is a terminal: the findings go into a pipe.
    expect((await line.here(["doctor"], { env: port(), isTerminal: true })).out).not.toContain("\u001b");
  });

  test("reports everything that a service could not use: settings, folder, secret, certificate", async () => {
    const names = (await doctor({ CLAVIGER_PORT: "x" })).findings.map(
      ({ name, state }) => `${name}: ${state}`,
    );
    expect(names).toEqual(["program: ok", "configuration: fail"]);

    const secret = await doctor({ ...port(), CLAVIGER_SECRET: SECRET });
    expect(secret.of("secret")).toMatchObject({ state: "fail" });
    expect([secret.status, secret.err]).toEqual([
      1,
      expect.stringMatching(/^claviger: 2 of \d+ checks failed\n$/),
    ]);

    using idle = createCommandLine();
    const tlsOf = async (certFile: string, keyFile: string) =>
      (await doctor({ CLAVIGER_TLS_CERT: certFile, CLAVIGER_TLS_KEY: keyFile }, idle)).of("tls");
    for (const [days, state] of [
      [-1, "fail"],
      [3, "warn"],
      [60, "ok"],
    ] as const) {
      const { certFile, keyFile } = makeCertificate(idle.folder, `days${days}`, days);
      expect((await tlsOf(certFile, keyFile))?.state).toBe(state);
      // doctor must not read this pipe, or it would wait for a writer.
      const pipe = join(idle.folder, `pipe${days}`);
      expect(Bun.spawnSync(["mkfifo", pipe]).exitCode).toBe(0);
      expect(await tlsOf(certFile, pipe)).toMatchObject({
        state: "fail",
        message: `Cannot use TLS: the key ${pipe}: it is no regular file`,
      });
    }
  });

  test("examines the settings of the running service, not those of its next start", async () => {
    const { certFile, keyFile } = makeCertificate(line.folder, "next", -1);
    const env = { CLAVIGER_TLS_CERT: certFile, CLAVIGER_TLS_KEY: keyFile };
    expect((await doctor(env)).of("tls")).toMatchObject({
      state: "ok",
      message: "none: only a proxy or this machine should call the service",
    });
  });

  test("warns that a token expires soon", async () => {
    const soon = new Date(Date.now() + 86_400_000).toISOString();
    await line.here(["installer", "set-token", "--expires-at", soon], { input: "a-token" });
    expect((await doctor(port())).of("installer token")).toMatchObject({ state: "warn" });
    expect(await line.here(["installer", "clear-token"])).toMatchObject({ status: 0 });
  });

  test("never advises to make another secret for a sealed database", async () => {
    const path = join(line.dataDir, "secret");
    renameSync(path, `${path}.away`);
    const secret = (await doctor()).of("secret");
    renameSync(`${path}.away`, path);
    expect(secret).toEqual({
      name: "secret",
      state: "fail",
      message: expect.stringContaining(`there is no file secret in ${line.dataDir}`),
      remedy: "put the file back, or name it in CLAVIGER_SECRET_FILE",
    });
  });

  test.skipIf(!asRoot)(
    "refuses the folder of another user with the line to type, and does not report a missing database",
    async () => {
      using closed = createCommandLine();
      mkdirSync(closed.dataDir, { mode: 0o700 });
      try {
        process.seteuid?.(65_534);
        const refusal = refusalOf(await closed.here(["keys", "list"]));
        expect(refusal).toMatch(/^Cannot work in the data folder \S+: it belongs to user root, /);
        expect(refusal).toMatch(
          /; run `sudo \.\/claviger keys list [^`]*`, or choose another folder, such as --data-dir /,
        );
      } finally {
        process.seteuid?.(0);
      }
    },
  );

  test.skipIf(!asRoot)(
    "refuses root in the folder of another user, who gets root's file from root's shell",
    async () => {
      using foreign = createCommandLine();
      mkdirSync(foreign.dataDir, { mode: 0o700 });
      chownSync(foreign.dataDir, 65_534, 65_534);
      const place = `--data-dir ${foreign.dataDir} --env-file ${foreign.folder}/empty.env`;
      const lineOf = async (...args: string[]) =>
        /; run `runuser -u nobody -- \.\/claviger ([^`]*)`$/.exec(refusalOf(await foreign.here(args)))?.[1];
      expect(await lineOf("restore", "its backup")).toBe(`restore - ${place} < 'its backup'`);
      expect(await lineOf("keys", "import", "--json", "/root/keys")).toBe(
        `keys import --json - ${place} < /root/keys`,
      );
      expect(await lineOf("restore", "-")).toBe(`restore - ${place}`);
      expect(await lineOf("backup", "saved")).toBe(`backup saved ${place}`);
    },
  );

  test("works without a service, and reports that none runs", async () => {
    using alone = createCommandLine();
    const none = await alone.here(["doctor", "--json"], { env: { CLAVIGER_PORT: "1" } });
    expect(none.status).toBe(1);
    expect(none.out).toContain("Cannot find a database");
    expect((await alone.here(["migrate"])).status).toBe(0);
    writeFileSync(join(alone.dataDir, "secret"), SECRET, { mode: 0o600 });
    const conf = join(alone.dataDir, "postgres/postgresql.conf");
    const risky = await Bun.file(conf).text();
    writeFileSync(conf, `${risky}\nfull_page_writes = off\n`);
    const { status, of } = await doctor({ CLAVIGER_PORT: "1" }, alone);
    expect(status).toBe(1);
    expect(of("service")).toMatchObject({
      state: "warn",
      message: `no service runs from ${alone.dataDir}`,
    });
    expect(of("durability")).toMatchObject({
      state: "fail",
      message: "a power cut can lose acknowledged changes: full_page_writes off",
    });
  });
});

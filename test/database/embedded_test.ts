import { afterEach, describe, expect, test } from "bun:test";
import { execFileSync, spawn } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { hostMemoryBytes } from "../../src/base/host/mod.ts";
import { type Log, silentLog } from "../../src/base/log.ts";
import { readHolder } from "../../src/database/embedded/_holder.ts";
import { layoutOf } from "../../src/database/embedded/_layout.ts";
import { toRefusal } from "../../src/database/embedded/_refusals.ts";
import { sharedBuffers } from "../../src/database/embedded/_settings.ts";
import { isRoot } from "../support/is_root.ts";
import { confOf, FEW_PAGES } from "../support/postgres.ts";
import { until } from "../support/until.ts";
import {
  cleanUp,
  findPostgres,
  holdSession,
  isRunning,
  makeDataFolder,
  makeFolder,
  open,
  openElsewhere,
  query,
  start,
} from "./embedded_test_kit.ts";

afterEach(cleanUp);

const asRoot = isRoot("a data folder that root opens");

describe("openEmbedded()", () => {
  test("starts PostgreSQL on an empty folder, with fsync, checksums, UTF-8 and no TCP", async () => {
    const folder = join(makeFolder(), "data");
    const server = await start(folder, { fsync: true });
    const settings = ["fsync", "data_checksums", "server_encoding", "listen_addresses", "TimeZone"];
    const list = settings.map((name) => `current_setting('${name}') as "${name}"`).join(", ");
    const [row] = await query(server.address, `select ${list}, datlocprovider, datlocale from pg_database`);
    expect(server.owned).toBe(true);
    expect(row).toMatchObject({
      fsync: "on",
      data_checksums: "on",
      server_encoding: "UTF8",
      listen_addresses: "",
      TimeZone: "UTC",
      datlocprovider: "b",
      datlocale: "C.UTF-8",
    });
  });

  test("starts again, and keeps the data", async () => {
    const folder = makeDataFolder();
    const first = await start(folder);
    await query(first.address, "create table kept as select 'Grüße' as word");
    await first.stop(3000);
    expect(first.pid()).toBeUndefined();

    const second = await start(folder);
    expect(await query(second.address, "select word from kept")).toEqual([{ word: "Grüße" }]);
  });

  test("keeps an eighth of the memory for pages, from 128 MB to 2 GB, also in an existing cluster", async () => {
    const folder = makeDataFolder();
    const conf = confOf(folder);
    writeFileSync(conf, readFileSync(conf, "utf8").replace(FEW_PAGES, ""));
    const sizeWith = (gigabytes: number) =>
      sharedBuffers(join(folder, "postgres"), gigabytes * 2 ** 30).shared_buffers;
    expect([0.5, 8, 64].map(sizeWith)).toEqual(["128MB", "1024MB", "2048MB"]);
    const { address } = await start(folder);
    const rows = await query(
      address,
      "select pg_size_bytes(current_setting('shared_buffers')) / 2 ^ 20 as size",
    );
    const [{ size } = { size: "" }] = rows;
    expect(`${size}MB`).toBe(sizeWith(hostMemoryBytes() / 2 ** 30) ?? "");
  });

  test("keeps as much memory for pages as the operator set, by statement or in the file", async () => {
    const folder = makeDataFolder();
    const sizeAfter = async (statement: string) => {
      const server = await start(folder);
      const [row] = await query(server.address, "select current_setting('shared_buffers') as size");
      await query(server.address, statement);
      await server.stop(3000);
      return row?.size;
    };
    await sizeAfter("alter system set shared_buffers = '96MB'");
    expect(await sizeAfter("alter system reset shared_buffers")).toBe("96MB");
    appendFileSync(join(folder, "postgres/postgresql.conf"), "shared_buffers = '64MB' # less\n");
    expect(await sizeAfter("select 1")).toBe("64MB");
  });

  test("starts in a folder whose path is too long for a socket", async () => {
    const folder = join(makeFolder(), "n".repeat(120), "m".repeat(120));
    const server = await start(folder);
    expect(await query(server.address, "select 1 as one")).toEqual([{ one: 1 }]);
    expect(server.address.socketPath.length).toBeLessThan(40);
  });

  test("starts after an interrupted initdb", async () => {
    const folder = makeFolder();
    mkdirSync(join(folder, "postgres.unfinished-99999"));
    writeFileSync(join(folder, "postgres.unfinished-99999/PG_VERSION"), "18\n");
    const server = await start(folder);
    expect(await query(server.address, "select 1 as one")).toEqual([{ one: 1 }]);
    expect(readdirSync(folder).sort()).toEqual(["installation", "lock", "postgres"]);
  });

  test("starts PostgreSQL with a clean environment, without the variables of the service", async () => {
    const server = await start(makeDataFolder());
    const environment = readFileSync(`/proc/${server.pid()}/environ`, "utf8").split("\0");
    expect(environment.filter((line) => line.startsWith("LC_ALL="))).toEqual(["LC_ALL=C"]);
    expect(environment.some((line) => line.startsWith("HOME=") || line.startsWith("USER="))).toBe(false);
  });

  test("unpacks the binaries into the data folder, and replaces older or unsettled ones", async () => {
    const folder = makeFolder();
    mkdirSync(join(folder, "postgres-17.2-00000000/bin"), { recursive: true });
    const here = { ownBinaries: true, fsync: true };
    const server = await start(folder, here);
    await server.stop(3000);
    const [binaries = "", ...others] = readdirSync(folder).filter((name) => name.startsWith("postgres-"));
    expect(binaries).toMatch(/^postgres-18\.\d+-[0-9a-f]{8}$/);
    expect(others).toEqual([]);

    // This is the state after a power cut: a file is empty, and the mark `settled` is missing.
    rmSync(join(folder, binaries, "settled"));
    writeFileSync(join(folder, binaries, "bin/postgres"), "");
    expect(await query((await start(folder, here)).address, "select 1 as one")).toEqual([{ one: 1 }]);
  });

  test("writes no values and no text of statements to the log", async () => {
    const lines: string[] = [];
    const write = (line: string) => lines.push(line);
    const log: Log = { info: write, warn: write, error: write };
    const server = await start(makeDataFolder(), { log });
    await query(server.address, "select 'svc_live_topsecret'::integer").catch(() => {});
    await query(server.address, "do $$ begin raise warning 'svc_live_topsecret'; end $$");
    await server.stop(3000);
    expect(lines.join("\n")).not.toContain("topsecret");
  });
});

describe("openEmbedded() with an unusable folder", () => {
  test("refuses a folder that a running service uses, and names its process", async () => {
    const folder = makeDataFolder();
    const service = await openElsewhere(folder, "serve");
    expect(await open(folder)).toMatchObject({ sentence: expect.stringContaining(`process ${service.pid}`) });
  });

  test("refuses a folder that a command uses for too long, and names its process", async () => {
    const folder = makeDataFolder();
    const command = await openElsewhere(folder, "command");
    const refused = await open(folder, { waitMs: 100 });
    expect(refused).toMatchObject({ sentence: expect.stringContaining(`process ${command.pid}`) });
  });

  test("refuses a folder without data that the caller may not create, and leaves nothing there", async () => {
    const folder = makeFolder();
    const command = { holder: "command", create: false } as const;
    expect(await open(folder, command)).toMatchObject({ sentence: expect.stringContaining("--data-dir") });
    expect(await open(join(folder, "none"), command)).toHaveProperty("sentence");
    expect(readdirSync(folder)).toEqual([]);
  });

  test("refuses a cluster of another major version", async () => {
    const folder = makeFolder();
    mkdirSync(join(folder, "postgres"));
    writeFileSync(join(folder, "postgres/PG_VERSION"), "17\n");
    expect(await open(folder)).toMatchObject({ sentence: expect.stringContaining("PostgreSQL 17 made it") });
  });

  test("refuses a path that leads through a file", async () => {
    const file = join(makeFolder(), "file");
    writeFileSync(file, "");
    expect(await open(join(file, "data"))).toMatchObject({
      sentence: expect.stringContaining("choose another"),
    });
  });

  test("refuses a platform without an embedded PostgreSQL", async () => {
    const { bunPlatform } = await import("../../src/base/platform/bun/mod.ts");
    const platform = { ...bunPlatform, postgresArchive: () => Promise.resolve(undefined) };
    expect(await open(makeFolder(), { platform })).toMatchObject({
      sentence: expect.stringContaining("DATABASE_URL"),
    });
  });
});

describe("openEmbedded() for a command", () => {
  test("uses the server of a running service, and leaves it running", async () => {
    const folder = makeDataFolder();
    const service = await openElsewhere(folder, "serve");
    const joined = await start(folder, { holder: "command", create: false });
    expect(joined.owned).toBe(false);
    expect(joined.pid()).toBe(service.postgresPid);
    expect(await query(joined.address, "select 1 as one")).toEqual([{ one: 1 }]);
    await joined.stop(3000);
    expect(isRunning(service.postgresPid ?? 0)).toBe(true);
  });

  test("waits for a service that is just starting", async () => {
    const folder = makeDataFolder();
    const [service, joined] = await Promise.all([
      openElsewhere(folder, "serve"),
      (async () => {
        // The file alone is not enough: between its creation and its lock, this command could lock it first.
        await until(() => readHolder(join(folder, "lock"))?.kind === "serve");
        return start(folder, { holder: "command", create: false });
      })(),
    ]);
    expect(joined.owned).toBe(false);
    expect(joined.pid()).toBe(service.postgresPid);
  });

  test("starts its own server if no service runs, and stops it", async () => {
    const folder = makeDataFolder();
    await (await start(folder)).stop(3000);
    const command = await start(folder, { holder: "command", create: false });
    expect(command.owned).toBe(true);
    const pid = command.pid() ?? 0;
    await command.stop(3000);
    expect(isRunning(pid)).toBe(false);
  });

  test("waits for another command to finish", async () => {
    const folder = makeDataFolder();
    const first = await openElsewhere(folder, "command");
    const second = start(folder, { holder: "command", create: false });
    // Nothing shows that the second command waits, so the test pauses.
    await Bun.sleep(100);
    await first.kill("SIGTERM");
    expect((await second).owned).toBe(true);
  });
});

describe("openEmbedded() after a crash or a stop", () => {
  test("restarts a killed postmaster with an open session, and keeps its data", async () => {
    const failures: unknown[] = [];
    const log: Log = { ...silentLog, error: (_, fields) => failures.push(fields?.failure) };
    const server = await start(makeDataFolder(), { log });
    await query(server.address, "create table kept as select 1 as one");
    await holdSession(server.address);
    const pid = server.pid() ?? 0;
    process.kill(pid, "SIGKILL");
    await until(() => server.pid() !== pid && server.pid());
    expect(failures).toEqual([expect.stringContaining("SIGKILL")]);
    expect(await query(server.address, "select one from kept")).toEqual([{ one: 1 }]);
  });

  test("stops the PostgreSQL that survived its own kill -9, and starts another", async () => {
    const folder = makeDataFolder();
    const service = await openElsewhere(folder, "serve");
    await service.kill("SIGKILL");
    const orphan = service.postgresPid ?? 0;
    expect(isRunning(orphan)).toBe(true);

    const server = await start(folder);
    expect(isRunning(orphan)).toBe(false);
    expect(server.pid()).not.toBe(orphan);
    expect(await query(server.address, "select 1 as one")).toEqual([{ one: 1 }]);
  });

  test("starts after a kill -9 of itself and of the postmaster while a session is open", async () => {
    const folder = makeDataFolder();
    const service = await openElsewhere(folder, "serve");
    const beside = await start(folder, { holder: "command" });
    await holdSession(beside.address);
    await service.kill("SIGKILL");
    process.kill(service.postgresPid ?? 0, "SIGKILL");
    const server = await start(folder);
    expect(await query(server.address, "select 1 as one")).toEqual([{ one: 1 }]);
  });

  test("starts despite stale files that name an unrelated process, and does not end that process", async () => {
    const folder = makeDataFolder();
    await (await start(folder)).stop(3000);
    // The process belongs to the cluster's user: PostgreSQL itself ignores a process of another user.
    const { uid, gid } = statSync(join(folder, "postgres"));
    const stranger = spawn("sleep", ["60"], { stdio: "ignore", uid, gid });
    try {
      const cluster = join(folder, "postgres");
      const lines = [stranger.pid, cluster, 1, 5432, ".", "", "  1  1", "ready   ", ""];
      writeFileSync(join(cluster, "postmaster.pid"), lines.join("\n"));
      writeFileSync(join(cluster, ".s.PGSQL.5432.lock"), lines.slice(0, 5).join("\n"));
      writeFileSync(join(folder, "lock"), `serve ${stranger.pid} ready\n`);
      const server = await start(folder);
      expect(await query(server.address, "select 1 as one")).toEqual([{ one: 1 }]);
      expect(isRunning(stranger.pid ?? 0)).toBe(true);
    } finally {
      stranger.kill("SIGKILL");
    }
  });

  test("stops at any moment of a restart, and leaves no process running", async () => {
    const folder = makeDataFolder();
    // The supervisor starts PostgreSQL again after 100 ms: the stop comes before, during and after that start.
    for (const pauseMs of [0, 60, 105, 115, 130, 160]) {
      const server = await start(folder);
      process.kill(server.pid() ?? 0, "SIGKILL");
      await Bun.sleep(pauseMs);
      await server.stop(3000);
      expect(existsSync(join(folder, "postgres/postmaster.pid"))).toBe(false);
      expect(findPostgres(folder)).toBeUndefined();
    }
  });

  test("stops during a start whose process has not written its number yet", async () => {
    const folder = makeDataFolder();
    const server = await start(folder);
    holdUpStarts(folder);
    process.kill(server.pid() ?? 0, "SIGKILL");
    await until(() => server.pid() === undefined);
    const pid = await until(() => findPostgres(folder));
    await server.stop(500);
    expect(isRunning(pid)).toBe(false);
  });

  test("stops a server that does not react at the deadline", async () => {
    const server = await start(makeDataFolder());
    const pid = server.pid() ?? 0;
    process.kill(pid, "SIGSTOP");
    const startedAt = performance.now();
    await server.stop(200);
    expect(performance.now() - startedAt).toBeLessThan(10_000);
    expect(isRunning(pid)).toBe(false);
  });
});

describe("openEmbedded() when PostgreSQL does not start", () => {
  test("explains a damaged cluster with PostgreSQL's own message and a remedy", async () => {
    const folder = makeDataFolder();
    await (await start(folder)).stop(3000);
    rmSync(join(folder, "postgres/global/pg_control"));
    expect(await open(folder)).toMatchObject({
      code: "DATA_LOST",
      sentence: expect.stringContaining(
        "PostgreSQL said: postgres: could not find the database system; move the whole folder away",
      ),
    });
    // The lock was released.
    expect(readFileSync(join(folder, "lock"), "utf8")).toBe("");
  });

  test("names a setting that PostgreSQL refuses", async () => {
    const opening = open(makeDataFolder(), { settings: { shared_buffers: "plenty" } });
    await expect(opening).rejects.toThrow("shared_buffers");
  });

  test("reports a start that takes too long, and kills the process though it ignores signals", async () => {
    const folder = makeDataFolder();
    await (await start(folder)).stop(3000);
    holdUpStarts(folder);
    const message = open(folder, { startMs: 3000 }).catch(String);
    const pid = await until(() => findPostgres(folder));
    process.kill(pid, "SIGSTOP");
    expect(await message).toContain("not ready after 3 s");
    expect(isRunning(pid)).toBe(false);
    expect(readFileSync(join(folder, "lock"), "utf8")).toBe("");
  });
});

describe.if(asRoot)("openEmbedded() as root", () => {
  test("gives the cluster to an unprivileged user without access to anything else", async () => {
    const folder = join(makeFolder(), "data");
    const server = await start(folder);
    const cluster = statSync(join(folder, "postgres"));
    expect(cluster.uid).not.toBe(0);
    expect(cluster.mode & 0o777).toBe(0o700);
    expect([statSync(folder).uid, statSync(folder).mode & 0o777]).toEqual([0, 0o711]);
    expect([statSync(join(folder, "lock")).uid, statSync(join(folder, "lock")).mode & 0o777]).toEqual([
      0, 0o600,
    ]);
    const status = readFileSync(`/proc/${server.pid()}/status`, "utf8");
    expect(status).toMatch(new RegExp(`^Uid:\t${cluster.uid}\t${cluster.uid}\t`, "m"));
    expect(status).toMatch(/^Groups:\s*$/m);
    // PostgreSQL runs in its own session, so Ctrl-C does not reach it.
    const stat = readFileSync(`/proc/${server.pid()}/stat`, "utf8");
    expect(Number(stat.replace(/^.*\) /, "").split(" ")[3])).toBe(server.pid() ?? 0);
  });

  test("refuses a folder below one that the unprivileged user may not enter, and names it", async () => {
    const closed = join(makeFolder(), "closed");
    mkdirSync(closed, { mode: 0o700 });
    expect(await open(join(closed, "deep/data"))).toMatchObject({
      sentence: expect.stringContaining(`${closed} is closed to user claviger, who runs PostgreSQL`),
    });
    expect(readdirSync(closed)).toEqual([]);
  });

  test("refuses a closed folder behind a link", async () => {
    const folder = makeFolder();
    mkdirSync(join(folder, "closed/data"), { recursive: true });
    chmodSync(join(folder, "closed"), 0o700);
    symlinkSync(join(folder, "closed/data"), join(folder, "link"));
    expect(await open(join(folder, "link"))).toMatchObject({
      sentence: expect.stringContaining("/closed is closed"),
    });
  });

  test("starts with a strict umask in a folder without unpacked binaries", async () => {
    const folder = makeFolder();
    chmodSync(folder, 0o700);
    const before = process.umask(0o077);
    try {
      const server = await start(folder, { ownBinaries: true });
      expect(await query(server.address, "select 1 as one")).toEqual([{ one: 1 }]);
    } finally {
      process.umask(before);
    }
  });

  test("opens nothing in a folder that another user can change", async () => {
    const folder = makeFolder();
    chownSync(folder, 65_534, 65_534);
    expect(await open(folder)).toMatchObject({
      sentence: expect.stringContaining(`${folder}: it belongs to user nobody`),
    });
    chownSync(folder, 0, 0);
    chmodSync(folder, 0o777);
    expect(await open(join(folder, "data"))).toMatchObject({
      sentence: expect.stringContaining(`other users can write to ${folder}`),
    });
    expect(readdirSync(folder)).toEqual([]);
  });
});

test("toRefusal() names the option for another folder when the user may not create the folder", () => {
  const error = Object.assign(new Error("EACCES: permission denied, mkdir '/var/lib/claviger'"), {
    code: "EACCES",
  });
  expect(toRefusal(error, layoutOf("/var/lib/claviger")).sentence).toBe(
    "Cannot open the data folder /var/lib/claviger: EACCES: permission denied, mkdir '/var/lib/claviger'; run the " +
      "command as the owner of the folder, or choose another, such as --data-dir ./claviger-data",
  );
});

/** Makes each later start of PostgreSQL wait: it reads its settings from a pipe that no process writes. */
function holdUpStarts(dataDir: string): void {
  const settings = join(dataDir, "postgres/postgresql.auto.conf");
  rmSync(settings);
  execFileSync("mkfifo", [settings]);
}

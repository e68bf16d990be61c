/**
 * The tests' PostgreSQL: the server in `TEST_DATABASE_URL`, or else an embedded one, started on first use
 * without fsync in a temporary folder. `make test` starts one for all test files (`run_suite.ts`). A bare
 * `bun test` starts its own, which `preload.ts` stops after the last test; a signal stops it too.
 *
 * `TEST_DATABASE_URL` may name a folder of sockets as libpq does: `postgres://USER@%2Fthe%2Ffolder/DATABASE`.
 *
 * The next run finds the folders of killed runs by their free lock, and removes each with its server. All folders
 * are below the system's temporary folder, since the checkout may be in a folder (`/root`) that the user who
 * runs PostgreSQL cannot enter.
 *
 * The run's folder is in memory if there is room, and the tests make all their data folders in the same place: a disk
 * takes seconds to store a new database and to remove it. `TEST_FOLDER=/some/folder make test` keeps the tests on a disk.
 */
import { spawnSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import { bunPlatform } from "../../src/base/platform/bun/mod.ts";
import type { FileLock } from "../../src/base/platform/mod.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { type EmbeddedServer, openEmbedded, stopLeftovers } from "../../src/database/embedded/mod.ts";
import { migrate, migrations } from "../../src/database/mod.ts";

/** The address of a server, in one of two forms. */
export type TestServer =
  | { readonly url: string }
  | { readonly socketPath: string; readonly user: string; readonly database: string };

/** The time in which a run has locked its folder after making it. */
const BEGINNING_MS = 60_000;
/** A folder in memory, which most Linux systems have. */
const MEMORY = "/dev/shm";
/** Four times the space that the suite uses there at once. */
const ROOM_BYTES = 4 * 2 ** 30;
/** Without a size for its pages, PostgreSQL would take an eighth of the memory of this machine. */
const SETTINGS = {
  full_page_writes: "off",
  synchronous_commit: "off",
  max_connections: "200",
  shared_buffers: "128MB",
};
/** The setting of a sample. Each start of a PostgreSQL with 2 GB for its pages costs half a second of processor time. */
export const FEW_PAGES = "shared_buffers = '16MB'\n";

/** A data folder to copy, with the lock that tells other runs that it is in use. */
interface Sample {
  readonly folder: string;
  readonly lock: FileLock | undefined;
}

let ownSample: Sample | undefined;
let started: Promise<TestServer> | undefined;
let stop: (() => Promise<void>) | undefined;

/** Returns the server of this run, and starts it on the first call. */
export function testServer(): Promise<TestServer> {
  started ??= startServer();
  return started;
}

/** Stops the server of this run, if one was started, and removes its data and the sample of this process. */
export async function stopTestServer(): Promise<void> {
  if (ownSample !== undefined) {
    rmSync(ownSample.folder, { recursive: true, force: true });
    ownSample.lock?.release();
    ownSample = undefined;
  }
  await started?.catch(() => {});
  await stop?.();
}

/**
 * Starts the server for a run of several processes. Returns the environment in which those processes find the server,
 * the run's folder, and a data folder to copy ({@linkcode copySample}).
 */
export async function startRun(options: { readonly inMemory: boolean }): Promise<Record<string, string>> {
  if (givenServer() !== undefined) return {};
  const memory = options.inMemory && process.env.TEST_FOLDER === undefined ? findMemory() : undefined;
  const dataDir = await makeRunFolder(memory ?? testFolder());
  const first = await openServer({ dataDir, binariesParent: dataDir });
  const migrated = await migrate(first.address, migrations);
  if (isRefusal(migrated)) throw new Error(migrated.sentence);
  await first.stop(10_000);
  const sample = join(dataDir, "sample");
  copyDataFolder(dataDir, sample);
  appendFileSync(confOf(sample), FEW_PAGES);
  started = startServer({ dataDir, binariesParent: dataDir });
  return {
    TEST_DATABASE_URL: renderServer(await started),
    TEST_FOLDER: dataDir,
    TEST_SAMPLE: sample,
  };
}

async function startServer(folders?: Folders): Promise<TestServer> {
  const given = givenServer();
  if (given !== undefined) return given;
  const binariesParent = folders?.binariesParent ?? testFolder();
  const dataDir = folders?.dataDir ?? (await makeRunFolder(binariesParent));
  const server = await openServer({ dataDir, binariesParent });
  stop = async () => {
    // The data is not needed any more: skip the orderly shutdown, and do not wait for forgotten connections.
    await server.stop(0);
    rmSync(dataDir, { recursive: true, force: true });
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(signal, () => void stopTestServer().finally(() => process.exit(1)));
  }
  const { socketPath, ...rest } = server.address;
  // Processes that tests start must find the folder by this path, too.
  return { ...rest, socketPath: socketPath.replace("/proc/self/", `/proc/${process.pid}/`) };
}

interface Folders {
  readonly dataDir: string;
  readonly binariesParent: string;
}

async function openServer(folders: Folders): Promise<EmbeddedServer> {
  const server = await openEmbedded({
    ...folders,
    holder: "serve",
    create: true,
    platform: bunPlatform,
    clock: systemClock,
    log: silentLog,
    fsync: false,
    settings: SETTINGS,
  });
  if (isRefusal(server)) throw new Error(server.sentence);
  return server;
}

async function makeRunFolder(parent: string): Promise<string> {
  await removeAbandoned(parent);
  return mkdtempSync(join(parent, "run-"));
}

/**
 * Returns the address of a server for another process's `TEST_DATABASE_URL`; valid as long as this process
 * lives.
 */
function renderServer(server: TestServer): string {
  if ("url" in server) return server.url;
  return `postgres://${server.user}@${encodeURIComponent(dirname(server.socketPath))}/${server.database}`;
}

function givenServer(): TestServer | undefined {
  const url = process.env.TEST_DATABASE_URL;
  if (url === undefined || url === "") return undefined;
  const [, user = "", folder, database = ""] = /^postgres:\/\/([^@]+)@(%2F[^/]+)\/(\w+)$/i.exec(url) ?? [];
  if (folder === undefined) return { url };
  return { socketPath: `${decodeURIComponent(folder)}/.s.PGSQL.5432`, user, database };
}

/** Returns the folder for PostgreSQL and the tests' data: the run's folder, or else a folder of this user. */
export function testFolder(): string {
  return process.env.TEST_FOLDER ?? userFolder(tmpdir());
}

/** Makes the tests of this process keep their data in memory if there is room, unless they have a folder already. */
export function keepInMemory(): void {
  if (process.env.TEST_FOLDER !== undefined) return;
  const memory = findMemory();
  if (memory !== undefined) process.env.TEST_FOLDER = memory;
}

/**
 * Returns a folder of this user in memory; undefined if there is too little room, or programs cannot run
 * from there.
 */
function findMemory(): string | undefined {
  try {
    const mounts = readFileSync("/proc/self/mounts", "utf8").split("\n");
    const options = mounts
      .filter((line) => line.includes(` ${MEMORY} tmpfs `))
      .map((line) => line.split(" ")[3]);
    if (options.length === 0 || options.some((each) => each?.split(",").includes("noexec"))) return undefined;
    const { bavail, bsize } = statfsSync(MEMORY);
    return Math.min(bavail * bsize, process.availableMemory()) < ROOM_BYTES ? undefined : userFolder(MEMORY);
  } catch {
    // This is not Linux, or a Linux without that folder.
    return undefined;
  }
}

/** Returns a folder of this user, and makes it the first time. */
function userFolder(parent: string): string {
  const folder = join(parent, `claviger-test-${process.getuid?.() ?? 0}`);
  mkdirSync(folder, { recursive: true, mode: 0o755 });
  const { uid } = lstatSync(folder);
  if (uid !== process.getuid?.()) throw new Error(`Cannot use ${folder}: it belongs to user ${uid}`);
  return folder;
}

/**
 * Makes a data folder as `claviger migrate` leaves it behind: the programs of PostgreSQL and a database without rows, but
 * no secret. Copies them from the run's sample, which takes a tenth of the time. Without it (a bare `bun test`), the first
 * call makes a sample. Its PostgreSQL has {@linkcode FEW_PAGES}.
 */
export function copySample(dataDir: string): void {
  copyDataFolder(process.env.TEST_SAMPLE ?? sampleOfProcess().folder, dataDir);
}

function sampleOfProcess(): Sample {
  ownSample ??= makeSample();
  return ownSample;
}

function makeSample(): Sample {
  const folder = mkdtempSync(join(testFolder(), "run-"));
  const args = ["src/main.ts", "migrate", "--data-dir", folder, "--env-file", "/dev/null"];
  const [cwd, env] = [join(import.meta.dir, "../.."), { PATH: "/usr/bin:/bin" }];
  const { status, stderr } = spawnSync(process.execPath, args, { cwd, env, encoding: "utf8" });
  if (status !== 0) throw new Error(`Cannot make a sample: ${stderr}`);
  appendFileSync(confOf(folder), FEW_PAGES);
  return { folder, lock: bunPlatform.tryLock(join(folder, "lock")) };
}

/** Returns the path of the settings of the PostgreSQL inside. */
export function confOf(dataDir: string): string {
  return join(dataDir, "postgres/postgresql.conf");
}

function copyDataFolder(source: string, target: string): void {
  mkdirSync(target, { recursive: true });
  chmodSync(target, lstatSync(source).mode & 0o777);
  for (const name of readdirSync(source)) {
    if (!name.startsWith("postgres")) continue;
    // Links the programs, which never change; copies the database's files.
    const how = name === "postgres" ? "-a" : "-al";
    const { status, stderr } = spawnSync("cp", [how, join(source, name), target], { encoding: "utf8" });
    if (status !== 0) throw new Error(`Cannot copy ${name}: ${stderr}`);
  }
}

async function removeAbandoned(parent: string): Promise<void> {
  for (const name of readdirSync(parent).filter((entry) => entry.startsWith("run-"))) {
    const dataDir = join(parent, name);
    // A run that has just begun may not have its lock yet.
    const made = lstatSync(dataDir, { throwIfNoEntry: false });
    if (made === undefined || Date.now() - made.ctimeMs < BEGINNING_MS) continue;
    const lock = bunPlatform.tryLock(join(dataDir, "lock"));
    if (lock === undefined) continue;
    await stopLeftovers({ cluster: join(dataDir, "postgres"), clock: systemClock, graceMs: 0 });
    rmSync(dataDir, { recursive: true, force: true });
    lock.release();
  }
}

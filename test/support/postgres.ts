/**
 * The PostgreSQL of the tests: the one that `TEST_DATABASE_URL` names, else an embedded one, started on first
 * use without fsync in a temporary folder. `make test` starts one for all test files (`run_suite.ts`). A bare
 * `bun test` starts its own, which `preload.ts` stops after the last test; a signal stops it too.
 *
 * `TEST_DATABASE_URL` may name a folder of sockets as libpq does: `postgres://USER@%2Fthe%2Ffolder/DATABASE`.
 *
 * Folders of runs that were killed are known by their lock being free, and are cleared away, server and
 * all, by the next run. Everything is below the system's temporary folder, since the checkout may be in
 * a folder (`/root`) that is closed to the user as whom PostgreSQL runs.
 */
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { systemClock } from "../../src/clock.ts";
import { openEmbedded, stopLeftovers } from "../../src/database/embedded/mod.ts";
import { silentLog } from "../../src/log.ts";
import { bunPlatform } from "../../src/platform/bun/mod.ts";
import { isRefusal } from "../../src/refusal.ts";

/** The address of a server, in one of two forms. */
export type TestServer =
  | { readonly url: string }
  | { readonly socketPath: string; readonly user: string; readonly database: string };

/** In so long a run has locked its folder. */
const BEGINNING_MS = 60_000;

let started: Promise<TestServer> | undefined;
let stop: (() => Promise<void>) | undefined;

/** Gives the server of this run, starting it when it is the first to ask. */
export function testServer(): Promise<TestServer> {
  started ??= startServer();
  return started;
}

/** Stops the server of this run, if one was started, and removes its data. */
export async function stopTestServer(): Promise<void> {
  await started?.catch(() => {});
  await stop?.();
}

async function startServer(): Promise<TestServer> {
  const url = process.env.TEST_DATABASE_URL;
  if (url !== undefined && url !== "") return parseServer(url);

  const parent = testFolder();
  await removeAbandoned(parent);
  const dataDir = mkdtempSync(join(parent, "run-"));
  const server = await openEmbedded({
    dataDir,
    holder: "serve",
    create: true,
    platform: bunPlatform,
    clock: systemClock,
    log: silentLog,
    fsync: false,
    settings: { full_page_writes: "off", synchronous_commit: "off", max_connections: "200" },
    binariesParent: parent,
  });
  if (isRefusal(server)) throw new Error(server.sentence);

  stop = async () => {
    // Nobody needs the data: no orderly shutdown, and no waiting for connections that a test forgot.
    await server.stop(0);
    rmSync(dataDir, { recursive: true, force: true });
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(signal, () => void stopTestServer().finally(() => process.exit(1)));
  }
  return server.address;
}

/** The address of a server for the `TEST_DATABASE_URL` of another process, for as long as this process lives. */
export function renderServer(server: TestServer): string {
  if ("url" in server) return server.url;
  const folder = dirname(server.socketPath).replace("/proc/self/", `/proc/${process.pid}/`);
  return `postgres://${server.user}@${encodeURIComponent(folder)}/${server.database}`;
}

function parseServer(url: string): TestServer {
  const [, user = "", folder, database = ""] = /^postgres:\/\/([^@]+)@(%2F[^/]+)\/(\w+)$/i.exec(url) ?? [];
  if (folder === undefined) return { url };
  return { socketPath: `${decodeURIComponent(folder)}/.s.PGSQL.5432`, user, database };
}

/** Where test runs keep PostgreSQL and their data: one folder for each user, made once. */
export function testFolder(): string {
  const folder = join(tmpdir(), `claviger-test-${process.getuid?.() ?? 0}`);
  mkdirSync(folder, { recursive: true, mode: 0o755 });
  const { uid } = lstatSync(folder);
  if (uid !== process.getuid?.()) throw new Error(`Cannot use ${folder}: it belongs to user ${uid}`);
  return folder;
}

async function removeAbandoned(parent: string): Promise<void> {
  for (const name of readdirSync(parent).filter((entry) => entry.startsWith("run-"))) {
    const dataDir = join(parent, name);
    // A run that begins just now may not have its lock yet.
    const made = lstatSync(dataDir, { throwIfNoEntry: false });
    if (made === undefined || Date.now() - made.ctimeMs < BEGINNING_MS) continue;
    const lock = bunPlatform.tryLock(join(dataDir, "lock"));
    if (lock === undefined) continue;
    await stopLeftovers({ cluster: join(dataDir, "postgres"), clock: systemClock, graceMs: 0 });
    rmSync(dataDir, { recursive: true, force: true });
    lock.release();
  }
}

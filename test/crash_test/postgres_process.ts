/**
 * Controls the PostgreSQL under the crash test as its operator would. Either the service runs it, or the test program
 * runs it from the same binaries and the service reaches it by a `postgres://` address.
 */
import { spawn } from "node:child_process";
import { closeSync, existsSync, openSync, readFileSync, statSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import postgres from "postgres";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import { bunPlatform } from "../../src/base/platform/bun/mod.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { openEmbedded, stopLeftovers } from "../../src/database/embedded/mod.ts";
import type { DatabaseAddress } from "../../src/database/mod.ts";
import { findFreePort } from "../support/find_free_port.ts";
import { testFolder } from "../support/postgres.ts";
import { listPostmasters } from "./processes.ts";

/** A cluster and its unix socket, which no fault touches. */
export interface Cluster {
  readonly folder: string;
  readonly socketPath: string;
}

export interface OwnPostgres extends Cluster {
  readonly url: string;
  /** Starts it; returns before it accepts connections. */
  start(): Promise<void>;
  /** Ends all of its processes that are left. */
  remove(): Promise<void>;
}

const USER = "claviger";
const DATABASE = "postgres";

/** Returns the cluster of a service that runs its own database. */
export function embeddedCluster(dataDir: string): Cluster {
  const folder = join(dataDir, "postgres");
  return { folder, socketPath: join(folder, ".s.PGSQL.5432") };
}

/** Returns the address by which `src/database` opens a cluster. */
export function addressOf({ socketPath }: Cluster): DatabaseAddress {
  return { socketPath, user: USER, database: DATABASE };
}

/** Makes a cluster as the product does, and starts a server on it that listens on 127.0.0.1. */
export async function createOwnPostgres(dataDir: string, logPath: string): Promise<OwnPostgres> {
  const made = await openEmbedded({
    dataDir,
    holder: "serve",
    create: true,
    platform: bunPlatform,
    clock: systemClock,
    log: silentLog,
    binariesParent: testFolder(),
  });
  if (isRefusal(made)) throw new Error(made.sentence);
  await made.stop(5_000);
  const folder = join(dataDir, "postgres");
  const archive = await bunPlatform.postgresArchive();
  const program = join(testFolder(), `postgres-${archive?.label}`, "bin/postgres");
  const port = await findFreePort();
  const { uid, gid } = statSync(folder);
  const settings = [
    ...["listen_addresses=127.0.0.1", `port=${port}`, "unix_socket_directories=.", "max_connections=60"],
    ...["timezone=UTC", "log_line_prefix=%m [%p] "],
  ].flatMap((setting) => ["-c", setting]);

  let isRemoved = false;
  const postgresProcess: OwnPostgres = {
    folder,
    socketPath: join(folder, `.s.PGSQL.${port}`),
    url: `postgres://${USER}@127.0.0.1:${port}/${DATABASE}`,
    async start() {
      if (isRemoved) throw new Error("The database was removed");
      const log = openSync(logPath, "a");
      const child = spawn(program, ["-D", folder, ...settings], {
        cwd: "/",
        env: { LC_ALL: "C", TZ: "UTC", PATH: "/usr/bin:/bin" },
        detached: true,
        stdio: ["ignore", log, log],
        ...(process.getuid?.() === 0 && { uid, gid }),
      });
      closeSync(log);
      child.unref();
      await new Promise((resolve, reject) => {
        child.once("spawn", resolve);
        child.once("error", reject);
      });
    },
    async remove() {
      isRemoved = true;
      await stopLeftovers({ cluster: folder, clock: systemClock, graceMs: 0 });
    },
  };
  await postgresProcess.start();
  await untilAccepting(postgresProcess, { restart: postgresProcess.start });
  return postgresProcess;
}

const ACCEPT_DEADLINE_MS = 60_000;

/** Waits until a session can be opened, and returns that moment. */
export async function untilAccepting(
  cluster: Cluster,
  { restart }: { readonly restart?: () => Promise<void> } = {},
): Promise<number> {
  const beganMs = performance.now();
  let startedMs = beganMs;
  for (;;) {
    if (await accepts(cluster)) return performance.now();
    const nowMs = performance.now();
    if (nowMs - beganMs > ACCEPT_DEADLINE_MS) {
      throw new Error(`The database in ${cluster.folder} accepts no sessions`);
    }
    // The start failed: its port was taken, or the server before was still ending.
    if (restart !== undefined && nowMs - startedMs > 1_000 && listPostmasters(cluster.folder).length === 0) {
      startedMs = nowMs;
      await restart();
    }
    await Bun.sleep(5);
  }
}

/** Opens a session up to the first `ReadyForQuery`, without a driver, whose retries would take time. */
function accepts({ socketPath }: Cluster): Promise<boolean> {
  if (!existsSync(socketPath)) return Promise.resolve(false);
  const parameters = `user\0${USER}\0database\0${DATABASE}\0\0`;
  const startup = Buffer.alloc(8 + parameters.length);
  startup.writeInt32BE(startup.length, 0);
  startup.writeInt32BE(3 << 16, 4);
  startup.write(parameters, 8);
  return new Promise((resolve) => {
    const socket = connect(socketPath);
    let received: Buffer = Buffer.alloc(0);
    const end = (accepted: boolean) => {
      socket.destroy();
      resolve(accepted);
    };
    socket.setTimeout(1_000, () => end(false));
    socket.on("error", () => end(false));
    socket.on("close", () => end(false));
    socket.on("connect", () => socket.write(startup));
    socket.on("data", (bytes: Buffer) => {
      received = Buffer.concat([received, bytes]);
      if (received[0] === 0x45) end(false);
      // ReadyForQuery, idle: the last message of a connection's start.
      else if (received.subarray(-6).equals(Buffer.from([0x5a, 0, 0, 0, 5, 0x49]))) end(true);
    });
  });
}

export interface Session {
  run(statement: string): Promise<readonly Record<string, unknown>[]>;
  end(): Promise<void>;
}

/** Opens a session for the test program, around every fault. */
export async function openControl(cluster: Cluster): Promise<Session> {
  const sql = postgres({
    path: cluster.socketPath,
    user: USER,
    database: DATABASE,
    max: 1,
    fetch_types: false,
    onnotice: () => {},
    connection: { application_name: "crash-test" },
  });
  await sql.unsafe("select 1");
  return { run: async (statement) => [...(await sql.unsafe(statement))], end: () => sql.end({ timeout: 1 }) };
}

/** Runs one statement in a session of its own. */
export async function control(
  cluster: Cluster,
  statement: string,
): Promise<readonly Record<string, unknown>[]> {
  const session = await openControl(cluster);
  try {
    return await session.run(statement);
  } finally {
    await session.end();
  }
}

export const TERMINATE =
  "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'claviger'";
export const LIST_BACKENDS =
  "select pid from pg_stat_activity where application_name = 'claviger' order by pid";

/** Reads the postmaster's pid from the cluster's file; undefined if there is none. */
export function postmasterOf({ folder }: Cluster): number | undefined {
  try {
    const pid = Number(readFileSync(join(folder, "postmaster.pid"), "utf8").split("\n")[0]);
    return pid > 0 ? pid : undefined;
  } catch {
    return undefined;
  }
}

/** Shared by the tests of the embedded PostgreSQL: folders, servers that are stopped after a test, queries. */
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import postgres from "postgres";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import { bunPlatform } from "../../src/base/platform/bun/mod.ts";
import { isRefusal, type Refusal } from "../../src/base/refusal.ts";
import { readPostmasterFile } from "../../src/database/embedded/_postmaster_file.ts";
import {
  type EmbeddedAddress,
  type EmbeddedOptions,
  type EmbeddedServer,
  openEmbedded,
} from "../../src/database/embedded/mod.ts";
import { orThrow } from "../support/issue.ts";
import { copySample, testFolder } from "../support/postgres.ts";

const undo: (() => Promise<void> | void)[] = [];

/** For `afterEach`: stops everything that the test started, the last first. */
export async function cleanUp(): Promise<void> {
  for (const step of undo.splice(0).reverse()) await step();
}

export function makeFolder(): string {
  const folder = mkdtempSync(join(testFolder(), "embedded-"));
  chmodSync(folder, 0o755);
  undo.push(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Makes a data folder as a first start leaves it, with an empty database. */
export function makeDataFolder(): string {
  const folder = makeFolder();
  copySample(folder);
  return folder;
}

export interface TestOptions extends Partial<Omit<EmbeddedOptions, "dataDir" | "binariesParent">> {
  /** Unpacks into the data folder, as in production, instead of the folder that all tests share. */
  readonly ownBinaries?: boolean;
}

export interface TestServer extends EmbeddedServer {
  /** Returns the process id of the postmaster; undefined while none accepts connections. */
  pid(): number | undefined;
}

export async function open(
  dataDir: string,
  { ownBinaries = false, ...options }: TestOptions = {},
): Promise<TestServer | Refusal> {
  const server = await openEmbedded({
    dataDir,
    holder: "serve",
    create: true,
    platform: bunPlatform,
    clock: systemClock,
    log: silentLog,
    fsync: false,
    ...(ownBinaries ? {} : { binariesParent: testFolder() }),
    ...options,
  });
  if (isRefusal(server)) return server;
  let stopped: Promise<void> | undefined;
  const stop = (deadlineMs: number) => {
    stopped ??= server.stop(deadlineMs);
    return stopped;
  };
  undo.push(() => stop(3000));
  return {
    ...server,
    stop,
    pid() {
      const file = readPostmasterFile(join(dataDir, "postgres"));
      return file?.status === "ready" ? file.pid : undefined;
    },
  };
}

/** Opens the folder, and throws on a refusal. */
export async function start(dataDir: string, options?: TestOptions): Promise<TestServer> {
  return orThrow(await open(dataDir, options));
}

/** Runs one statement on its own connection. */
export async function query(
  address: EmbeddedAddress,
  statement: string,
): Promise<readonly Record<string, unknown>[]> {
  const sql = postgres({
    path: address.socketPath,
    user: address.user,
    database: address.database,
    max: 1,
    backoff: false,
    onnotice: () => {},
  });
  try {
    return [...(await sql.unsafe(statement))];
  } finally {
    await sql.end({ timeout: 0 });
  }
}

/**
 * Opens a session without the driver and leaves it open, running the statement if there is one. The driver would
 * throw uncaught errors (`write EPIPE`) when its server is killed.
 */
export async function holdSession(address: EmbeddedAddress, statement?: string): Promise<void> {
  const parameters = `user\0${address.user}\0database\0${address.database}\0\0`;
  const startup = Buffer.alloc(8 + parameters.length);
  startup.writeInt32BE(startup.length, 0);
  startup.writeInt32BE(3 << 16, 4);
  startup.write(parameters, 8);
  const socket = connect(address.socketPath);
  undo.push(() => void socket.destroy());
  await new Promise<void>((resolve, reject) => {
    socket.once("error", reject);
    socket.once("data", () => resolve());
    socket.write(startup);
  });
  socket.on("error", () => {});
  if (statement === undefined) return;
  const query = Buffer.alloc(6 + Buffer.byteLength(statement));
  query.write("Q");
  query.writeInt32BE(query.length - 1, 1);
  query.write(statement, 5);
  socket.write(query);
}

export interface OtherProcess {
  readonly pid: number;
  /** The process of the PostgreSQL that it started; undefined if the folder was refused. */
  readonly postgresPid: number | undefined;
  readonly refusal: string | undefined;
  kill(signal: NodeJS.Signals): Promise<void>;
}

/** Opens the folder in another process, and waits until that process is ready or was refused. */
export async function openElsewhere(dataDir: string, holder: "serve" | "command"): Promise<OtherProcess> {
  const script = join(import.meta.dir, "../support/embedded_process.ts");
  const child = Bun.spawn([process.execPath, script, dataDir, holder, testFolder()], {
    stdout: "pipe",
    stderr: "inherit",
    env: {},
  });
  const kill = async (signal: NodeJS.Signals) => {
    child.kill(signal);
    await child.exited;
  };
  undo.push(() => (child.exitCode === null ? kill("SIGTERM") : undefined));
  const { value } = await child.stdout.getReader().read();
  const answer: { pid?: number; refusal?: string } = JSON.parse(new TextDecoder().decode(value));
  return { pid: child.pid, postgresPid: answer.pid, refusal: answer.refusal, kill };
}

/** Returns whether a process runs. A zombie does not run. */
export function isRunning(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

/** Returns the process of a starting PostgreSQL of that data folder. Only its command line shows it. */
export function findPostgres(dataDir: string): number | undefined {
  const argument = `\0${join(dataDir, "postgres")}\0`;
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.map(Number).find((pid) => isRunning(pid) && commandOf(pid).includes(argument));
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "latin1");
  } catch {
    return "";
  }
}

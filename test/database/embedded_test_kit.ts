/** What the tests of the embedded PostgreSQL share: folders, servers that are stopped, queries. */
import { chmodSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import postgres from "postgres";
import { systemClock } from "../../src/clock.ts";
import {
  type EmbeddedAddress,
  type EmbeddedOptions,
  type EmbeddedServer,
  openEmbedded,
} from "../../src/database/embedded/mod.ts";
import { silentLog } from "../../src/log.ts";
import { bunPlatform } from "../../src/platform/bun/mod.ts";
import { isRefusal, type Refusal } from "../../src/refusal.ts";
import { copySample, testFolder } from "../support/postgres.ts";

const undo: (() => Promise<void> | void)[] = [];

/** For `afterEach`: ends what the test started, last first. */
export async function cleanUp(): Promise<void> {
  for (const step of undo.splice(0).reverse()) await step();
}

export function makeFolder(): string {
  const folder = mkdtempSync(join(testFolder(), "embedded-"));
  chmodSync(folder, 0o755);
  undo.push(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A data folder that a first start left behind, with an empty database. */
export function makeDataFolder(): string {
  const folder = makeFolder();
  copySample(folder);
  return folder;
}

export interface TestOptions extends Partial<Omit<EmbeddedOptions, "dataDir" | "binariesParent">> {
  /** Unpacks into the data folder, as in real life, instead of the folder that all tests share. */
  readonly ownBinaries?: boolean;
}

export async function open(
  dataDir: string,
  { ownBinaries = false, ...options }: TestOptions = {},
): Promise<EmbeddedServer | Refusal> {
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
  return { ...server, stop };
}

/** Opens and takes a refusal for a failure of the test. */
export async function start(dataDir: string, options?: TestOptions): Promise<EmbeddedServer> {
  const server = await open(dataDir, options);
  if (isRefusal(server)) throw new Error(server.sentence);
  return server;
}

/** Runs one statement on a connection of its own. */
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
 * Opens a session by hand and leaves it open; the driver throws uncaught errors (`write EPIPE`) when a
 * server is killed under it.
 */
export async function holdSession(address: EmbeddedAddress): Promise<void> {
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
}

export interface OtherProcess {
  readonly pid: number;
  /** Of the PostgreSQL it started; undefined where it was refused. */
  readonly postgresPid: number | undefined;
  readonly refusal: string | undefined;
  kill(signal: NodeJS.Signals): Promise<void>;
}

/** Opens the folder in a process of its own, and waits until that is ready or was refused. */
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

/** Whether a process runs; one that ended but was not collected does not. */
export function isRunning(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

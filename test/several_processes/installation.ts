/**
 * An installation of several processes: a PostgreSQL of its own that a test can restart, and any number of `serve`
 * processes, run as operators run them. Each process reaches the database through its own gate.
 */
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import type { EmbeddedAddress } from "../../src/database/embedded/mod.ts";
import { type Database, openDatabase } from "../../src/database/mod.ts";
import { createCommandLine, type Ended } from "../cli/command_line.ts";
import { cleanUp, makeDataFolder, start } from "../database/embedded_test_kit.ts";
import { createTestClock } from "../support/clock.ts";
import { type FaultyProxy, startFaultyProxy } from "../support/faulty_proxy.ts";
import { TEST_SECRET } from "../support/secrets.ts";
import type { JsonResponse } from "../support/service.ts";
import { until } from "../support/until.ts";
import { type PulseGate, startPulseGate } from "./pulse_gate.ts";
import { type ServeProcess, startServeProcess } from "./serve_process.ts";

export interface Installation {
  /** Direct access to the tables, to read them and to make changes whose commit a test must see. */
  readonly database: Database;
  /** For a session of a test. */
  readonly address: EmbeddedAddress;
  /** Starts a process with more settings, of this or another version, and waits until it serves. */
  serve(settings?: Readonly<Record<string, string>>, main?: string): Promise<Replica>;
  /** Runs a command on the database, as an operator does while the processes serve. */
  run(args: readonly string[]): Promise<Ended>;
  /** Ends PostgreSQL with that signal and waits until a new PostgreSQL answers. */
  restart(signal: "SIGINT" | "SIGQUIT"): Promise<void>;
  /** Ends everything. */
  close(): Promise<void>;
}

export interface Replica extends ServeProcess {
  readonly gate: PulseGate;
  post(path: string, body: object): Promise<JsonResponse>;
  get(path: string): Promise<JsonResponse>;
}

/** Every limit is off, because each process counts them by itself. */
export const NO_LIMITS = Object.fromEntries(
  ["VALIDATE", "REFRESH", "REVOKE", "LICENSE", "REPO_TOKEN", "MODELS", "ANALYTICS"].map((name) => [
    `CLAVIGER_LIMIT_${name}`,
    "0",
  ]),
);

export async function createInstallation(): Promise<Installation> {
  const folder = makeDataFolder();
  const clock = createTestClock();
  const server = await start(folder, { clock });
  const proxy: FaultyProxy = await startFaultyProxy(server.address);
  const database = openDatabase(server.address, { clock: systemClock, log: silentLog, maxConnections: 2 });
  const commandLine = createCommandLine();
  const replicas: Replica[] = [];

  async function serve(settings: Readonly<Record<string, string>> = {}, main?: string): Promise<Replica> {
    const gate = await startPulseGate(server.address);
    const env = {
      ...NO_LIMITS,
      ...{ DATABASE_URL: gate.url, CLAVIGER_SECRET: TEST_SECRET, CLAVIGER_STOP_GRACE: "0" },
      CLAVIGER_DATA_DIR: folder,
      ...settings,
    };
    const serving = await startServeProcess({ cwd: folder, env, main });
    const send = async (path: string, init?: RequestInit) => {
      const response = await fetch(`${serving.url}${path}`, { ...init, signal: AbortSignal.timeout(5_000) });
      return { status: response.status, headers: response.headers, body: await response.json() };
    };
    const replica: Replica = {
      ...serving,
      gate,
      post: (path, body) => send(path, { method: "POST", body: JSON.stringify(body) }),
      get: (path) => send(path),
      async kill(signal) {
        await serving.kill(signal);
        await gate.close();
      },
    };
    replicas.push(replica);
    return replica;
  }

  return {
    database,
    address: server.address,
    serve,
    run: (args) =>
      commandLine.run([...args, "--env-file", "/dev/null"], {
        env: { DATABASE_URL: proxy.address.url, CLAVIGER_SECRET: TEST_SECRET },
      }),
    async restart(signal) {
      const pid = server.pid();
      if (pid === undefined) throw new Error("PostgreSQL does not run");
      // As if the process had run for long, so that it is started again at once.
      clock.advance(60_000);
      process.kill(pid, signal);
      await until(() => server.pid() !== pid && server.pid());
    },
    async close() {
      await Promise.all(replicas.map((replica) => replica.kill("SIGTERM")));
      await database.close();
      await proxy.close();
      commandLine.remove();
      await cleanUp();
    },
  };
}

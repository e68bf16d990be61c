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
import {
  limitSettings,
  type ServiceProcess,
  SOURCE,
  spawnService,
  toServeCommand,
} from "../support/service_process.ts";
import { until } from "../support/until.ts";
import { type PulseGate, startPulseGate } from "./pulse_gate.ts";

export interface Installation {
  /** Direct access to the tables, to read them and to make changes whose commit a test must see. */
  readonly database: Database;
  /** For a session of a test. */
  readonly address: EmbeddedAddress;
  /** Starts a process with more settings, of this or another version, and waits until it serves. */
  serve(settings?: Readonly<Record<string, string>>, how?: ServeHow): Promise<Replica>;
  /** Runs a command on the database, as an operator does while the processes serve. */
  run(args: readonly string[]): Promise<Ended>;
  /** Ends PostgreSQL with that signal and waits until a new PostgreSQL answers. */
  restart(signal: "SIGINT" | "SIGQUIT"): Promise<void>;
  /** Ends everything. */
  close(): Promise<void>;
}

interface ServeHow {
  /** By default this source. */
  readonly program?: readonly string[];
  /** By default a port that the system chooses. */
  readonly port?: number;
}

export interface Replica extends Pick<ServiceProcess, "pid" | "url"> {
  readonly gate: PulseGate;
  /** Ends the process with that signal, and waits until it has ended. */
  kill(signal: NodeJS.Signals): Promise<void>;
  post(path: string, body: object): Promise<JsonResponse>;
  get(path: string): Promise<JsonResponse>;
}

export async function createInstallation(): Promise<Installation> {
  const folder = makeDataFolder();
  const clock = createTestClock();
  const server = await start(folder, { clock });
  const proxy: FaultyProxy = await startFaultyProxy(server.address);
  const database = openDatabase(server.address, { clock: systemClock, log: silentLog, maxConnections: 2 });
  const commandLine = createCommandLine();
  const kills: Replica["kill"][] = [];

  async function serve(
    settings: Readonly<Record<string, string>> = {},
    { program = SOURCE, port = 0 }: ServeHow = {},
  ): Promise<Replica> {
    const gate = await startPulseGate(server.address);
    const env = {
      // Each process would count them by itself.
      ...limitSettings(0),
      ...{ DATABASE_URL: gate.url, CLAVIGER_SECRET: TEST_SECRET, CLAVIGER_STOP_GRACE: "0" },
      CLAVIGER_DATA_DIR: folder,
      ...settings,
    };
    const serving = spawnService(toServeCommand(program, ["--port", String(port)]), { cwd: folder, env });
    const kill = async (signal: NodeJS.Signals) => {
      await serving.stop(signal);
      await gate.close();
    };
    kills.push(kill);
    await serving.untilServing();
    const send = async (path: string, init?: RequestInit) => {
      const response = await fetch(`${serving.url}${path}`, { ...init, signal: AbortSignal.timeout(5_000) });
      return { status: response.status, headers: response.headers, body: await response.json() };
    };
    return {
      pid: serving.pid,
      url: serving.url,
      gate,
      post: (path, body) => send(path, { method: "POST", body: JSON.stringify(body) }),
      get: (path) => send(path),
      kill,
    };
  }

  return {
    database,
    address: server.address,
    serve,
    run: (args) =>
      commandLine.run([...args, "--env-file", "/dev/null"], {
        env: { DATABASE_URL: proxy.address.url, CLAVIGER_SECRET: TEST_SECRET, CLAVIGER_DATA_DIR: folder },
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
      await Promise.all(kills.map((kill) => kill("SIGTERM")));
      await database.close();
      await proxy.close();
      commandLine.remove();
      await cleanUp();
    },
  };
}

/**
 * Sets up a benchmark: a temporary folder, and processes in it. Closing the stage removes the folder and ends the
 * processes, also after an error.
 */
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { builtExecutable, postmasterOf } from "../compiled/executable.ts";
import { createOwnPostgres } from "../crash_test/postgres_process.ts";
import { parseExposition } from "../support/exposition.ts";
import { TEST_SECRET } from "../support/secrets.ts";
import {
  endPostgresOf,
  limitSettings,
  type ServiceProcess,
  spawnService,
  toServeCommand,
} from "../support/service_process.ts";
import { type KeyOrder, type KeySet, writeImportFile } from "./bench_keys.ts";
import { type CoreList, type Cores, first, moveTo, onCores } from "./cores.ts";
import type { AnswerForm } from "./echo.ts";
import type { LoadJob, LoadResult, StoreJob } from "./load_job.ts";
import { processTree } from "./process_times.ts";

/** A process that answers requests. */
export interface Server {
  readonly host: string;
  readonly port: number;
  readonly pid: number;
  /** The postmaster of the service's PostgreSQL. */
  readonly database: number | undefined;
  /** Milliseconds from its start to the first 200 of health. */
  readonly readyMs: number;
  /** Reads its counters, keyed by their names on the metrics page; needs {@linkcode WITH_METRICS}. */
  counters(): Promise<ReadonlyMap<string, number>>;
  /** Returns the mean length of the lines in its log, in bytes. */
  logLineBytes(): number;
  /** Empties its log, so that a long run does not fill the disk. */
  forgetLog(): void;
  stop(): Promise<void>;
}

export interface Load {
  /** Runs a job against a server; throws the load's error if an answer was not a success. */
  run(server: Server, job: StageJob): Promise<LoadResult>;
}

/** A job: by default with the keys in turn, on 64 connections. */
export interface StageJob extends Pick<LoadJob, "request" | "warmUpMs" | "span"> {
  /** The keys, or how many there are. */
  readonly keys: KeySet | number;
  readonly order?: KeyOrder;
  readonly connections?: number;
}

export interface Store {
  /** Runs a job on PostgreSQL; throws the client's error if a statement failed. */
  run(job: StoreJob): Promise<LoadResult>;
  stop(): Promise<void>;
}

export type Environment = Readonly<Record<string, string>>;

export interface Stage {
  /** Makes a data folder with that many keys. */
  createData(keys: number): Promise<string>;
  /** Makes a data folder with that many keys, as `operators_data.sql` describes it. */
  createOperatorsData(keys: number): Promise<string>;
  copyData(dataDir: string): Promise<string>;
  /** Returns the path of a new folder, which does not exist yet. */
  newFolder(): string;
  /** Starts the executable. */
  serve(dataDir: string, options: { readonly cores: CoreList; readonly env?: Environment }): Promise<Server>;
  /** Starts the executable beside a PostgreSQL, which it reaches by TCP. */
  serveBesidePostgres(
    dataDir: string,
    options: { readonly cores: CoreList; readonly env?: Environment },
  ): Promise<Server>;
  /**
   * Starts the service from source. It gathers events, or with `plain` stores each event with its own
   * statement.
   */
  serveEvents(
    dataDir: string,
    options: { readonly cores: CoreList; readonly plain: boolean; readonly env?: Environment },
  ): Promise<Server>;
  /** Starts a bare echo. It may log a line of that length for each request, or answer in that form. */
  echo(
    cores: CoreList,
    options?: { readonly lineBytes?: number; readonly form?: AnswerForm },
  ): Promise<Server>;
  /** Starts PostgreSQL alone on a folder that a service has used before, and a client that stores events. */
  store(dataDir: string, cores: CoreList): Store;
  /**
   * Starts a load. If it has a core of its own, the server under measurement has the service's core to itself,
   * and every other running process is moved to the load's core. With `isDatabaseApart`, PostgreSQL is moved there too,
   * and the load comes before it, if this user may set that (`chrt`).
   */
  load(cores: Pick<Cores, "load" | "service">, options?: { readonly isDatabaseApart?: boolean }): Load;
  /** Runs a command of the executable and returns its output; throws if the command fails. */
  command(args: readonly string[], input?: string): Promise<string>;
  /** Stops all processes and removes all files; the stage can be used again, with an empty folder. */
  clear(): Promise<void>;
  /** Does the same; after it the stage cannot start anything any more. */
  close(): Promise<void>;
}

/** Turns on the page that {@linkcode Server.counters} reads. */
export const WITH_METRICS: Environment = { CLAVIGER_METRICS_LISTEN: "127.0.0.1:0" };

/** Limits so high that no load reaches them, although they are counted as usual; and no grace at the stop. */
const SETTINGS: Environment = {
  PATH: "/usr/bin:/bin",
  CLAVIGER_STOP_GRACE: "0",
  ...limitSettings(1_000_000),
};

/** How many connections a load has by default. */
const CONNECTIONS = 64;

/** How long a load or a command may take to end. */
const STOP_DEADLINE_MS = 15_000;

/**
 * Creates the stage, on which no process runs yet.
 *
 * One long function, because its functions share what `close` must end and delete: processes, servers and folders.
 */
export function createStage(): Stage {
  const folder = mkdtempSync(join(tmpdir(), "claviger-bench-"));
  // If root runs this, PostgreSQL runs as another user, who must be able to enter.
  chmodSync(folder, 0o755);
  const processes = new Set<Bun.Subprocess>();
  const services = new Set<ServiceProcess>();
  const servers = new Set<Server>();
  const dataDirs = new Set<string>();
  let made = 0;
  let isClosed = false;
  let closing: Promise<void> | undefined;

  const newFolder = () => join(folder, `${++made}`);

  function spawn<Err extends "inherit" | "pipe">(command: readonly string[], stderr: Err) {
    if (isClosed) throw new Error("The benchmark was stopped");
    const streams = { stdin: "pipe", stdout: "pipe", stderr } as const;
    const child = Bun.spawn([...command], { cwd: folder, env: SETTINGS, ...streams });
    processes.add(child);
    void child.exited.then(() => processes.delete(child));
    return child;
  }

  async function end(child: Bun.Subprocess): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_DEADLINE_MS);
    await child.exited;
    clearTimeout(timer);
  }

  async function startServer(
    command: readonly string[],
    { env, dataDir }: { readonly env: Environment; readonly dataDir?: string },
  ): Promise<Server> {
    if (isClosed) throw new Error("The benchmark was stopped");
    const log = join(folder, `log-${++made}`);
    // The log goes to a file, because reading it from a pipe would take time of a core.
    const service = spawnService(command, { cwd: folder, env, files: { out: log, err: log } });
    services.add(service);
    if (dataDir === undefined) await service.untilServing();
    else {
      dataDirs.add(dataDir);
      await service.untilHealthy();
    }
    const readyMs = performance.now() - service.startedMs;
    const { hostname, port } = new URL(service.url);
    const server: Server = {
      host: hostname,
      port: Number(port),
      pid: service.pid,
      database: dataDir === undefined ? undefined : postmasterOf(dataDir),
      readyMs,
      async counters() {
        const url = /metrics are at (\S+)/.exec(service.out())?.[1];
        if (url === undefined) throw new Error("The service was started without metrics");
        const families = parseExposition(await (await fetch(url)).text());
        return new Map([...families.values()].flatMap(({ samples }) => [...samples]));
      },
      logLineBytes() {
        const bytes = readFileSync(log);
        return Math.round(bytes.length / bytes.reduce((lines, byte) => lines + (byte === 10 ? 1 : 0), 0));
      },
      forgetLog: () => truncateSync(log),
      async stop() {
        servers.delete(server);
        await service.stop();
        services.delete(service);
      },
    };
    servers.add(server);
    return server;
  }

  /** Starts a process that takes each job as a line of JSON and prints its result. */
  function startWorker(command: readonly string[], cores: CoreList, prefix: readonly string[] = []) {
    const child = spawn([...prefix, ...onCores(cores), process.execPath, ...command], "inherit");
    const answers = readLines(child.stdout);
    return {
      async run(job: object): Promise<LoadResult> {
        void child.stdin.write(`${JSON.stringify(job)}\n`);
        void child.stdin.flush();
        const { value } = await answers.next();
        if (value === undefined) throw new Error(`${command.join(" ")} ended`);
        const { result, error } = JSON.parse(value) as { result?: LoadResult; error?: string };
        if (result === undefined) throw new Error(error ?? `${command.join(" ")} gave no result`);
        return result;
      },
      stop: () => end(child),
    };
  }

  /** Runs a program to its end and returns its output; throws if it fails. */
  async function run(command: readonly string[], input = ""): Promise<string> {
    const child = spawn(command, "pipe");
    void child.stdin.write(input);
    void child.stdin.end();
    const [out, err, status] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
    if (status !== 0) throw new Error(`${command.join(" ")} ended with ${status}: ${err}`);
    return out;
  }
  const command: Stage["command"] = (args, input) => run([builtExecutable, ...args], input);

  async function clear(): Promise<void> {
    await Promise.all([...[...processes].map(end), ...[...services].map((service) => service.stop())]);
    for (const dataDir of dataDirs) await endPostgresOf(dataDir);
    services.clear();
    servers.clear();
    dataDirs.clear();
    for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true, force: true });
  }

  return {
    newFolder,
    command,
    async createData(keys) {
      const dataDir = newFolder();
      dataDirs.add(dataDir);
      const place = ["--data-dir", dataDir];
      const file = join(folder, `keys-${++made}.jsonl`);
      await writeImportFile(file, keys);
      await command(["migrate", ...place]);
      await command(["keys", "import", file, ...place]);
      rmSync(file);
      return dataDir;
    },
    async createOperatorsData(keys) {
      const dataDir = newFolder();
      dataDirs.add(dataDir);
      const loader = join(import.meta.dir, "load_operators_data.ts");
      await run([process.execPath, loader, dataDir, `${keys}`]);
      return dataDir;
    },
    async copyData(dataDir) {
      const copy = newFolder();
      dataDirs.add(copy);
      // If root runs this, PostgreSQL's files belong to another user.
      await run(["cp", "-a", dataDir, copy]);
      return copy;
    },
    serve: (dataDir, { cores, env = {} }) =>
      startServer(toServe(dataDir, cores), { env: { ...SETTINGS, ...env }, dataDir }),
    async serveBesidePostgres(dataDir, { cores, env = {} }) {
      const postgres = await createOwnPostgres(dataDir, join(folder, `log-${++made}`));
      const settings = { ...SETTINGS, ...env, DATABASE_URL: postgres.url, CLAVIGER_SECRET: TEST_SECRET };
      return await startServer(toServe(dataDir, cores), { env: settings, dataDir });
    },
    serveEvents: (dataDir, { cores, plain, env = {} }) =>
      startServer(
        [
          ...onCores(cores),
          process.execPath,
          join(import.meta.dir, "event_service.ts"),
          dataDir,
          ...(plain ? ["--plain"] : []),
        ],
        { env: { ...SETTINGS, ...env }, dataDir },
      ),
    echo: (cores, { lineBytes, form } = {}) =>
      startServer(
        [
          ...onCores(cores),
          process.execPath,
          join(import.meta.dir, "echo.ts"),
          ...(lineBytes === undefined ? [] : ["--line", `${lineBytes}`]),
          ...(form === undefined ? [] : ["--like", JSON.stringify(form)]),
        ],
        { env: SETTINGS },
      ),
    store(dataDir, cores) {
      dataDirs.add(dataDir);
      return startWorker([join(import.meta.dir, "store_events.ts"), dataDir], cores);
    },
    load(cores, { isDatabaseApart = false } = {}) {
      const worker = startWorker(
        [join(import.meta.dir, "load.ts")],
        cores.load,
        isDatabaseApart ? first() : [],
      );
      return {
        async run(server, { keys, order = { kind: "in turn" }, connections = CONNECTIONS, ...job }) {
          if (cores.service !== cores.load) {
            const others = [...servers].filter((other) => other !== server);
            await moveTo(cores.load, others.flatMap(processesOf));
            const all = processesOf(server);
            const own = isDatabaseApart ? [server.pid] : all;
            await moveTo(
              cores.load,
              all.filter((pid) => !own.includes(pid)),
            );
            await moveTo(cores.service, own);
          }
          const { host, port, pid: service, database } = server;
          const keySet = typeof keys === "number" ? { first: 0, step: 1, count: keys } : keys;
          const sent = { ...job, keys: keySet, order, connections };
          return await worker.run({ ...sent, host, port, service, database });
        },
      };
    },
    clear: () => closing ?? clear(),
    close() {
      isClosed = true;
      closing ??= clear().then(() => rmSync(folder, { recursive: true, force: true }));
      return closing;
    },
  };
}

function toServe(dataDir: string, cores: CoreList): string[] {
  return toServeCommand([...onCores(cores), builtExecutable], ["--data-dir", dataDir]);
}

function processesOf({ pid, database }: Server): number[] {
  return [...new Set([...processTree(pid), ...(database === undefined ? [] : processTree(database))])];
}

async function* readLines(stream: ReadableStream<Uint8Array>): AsyncGenerator<string, undefined> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
  return undefined;
}

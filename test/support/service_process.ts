/**
 * Runs the service as a process of its own, as operators run it: from the source, as the executable, as another version,
 * or on Node. The rules that all such processes share are here: how their address is read from their output, how long a
 * start may take, how they are stopped, and what is killed at the end of a test.
 *
 * Whoever starts a process ends it with `end()`, also after a failed test. So keep the process before the first `await`.
 */
import { closeSync, existsSync, fstatSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { stopLeftovers } from "../../src/database/embedded/mod.ts";
import { SETTINGS } from "../../src/installation/config/settings.ts";
import type { Offsets } from "./moved_clock.ts";
import { until } from "./until.ts";

export interface ServiceProcess {
  readonly pid: number;
  /** `performance.now()` of its start. */
  readonly startedMs: number;
  /** The address for clients, such as `https://127.0.0.1:8443`. Throws before `untilServing()`. */
  readonly url: string;
  readonly port: number;
  /** What it has printed so far, and its log so far. */
  out(): string;
  err(): string;
  /** Resolves after its end, with the exit status, or with 128 plus the number of the signal. */
  readonly ended: Promise<number>;
  hasEnded(): boolean;
  /**
   * Waits until it has printed a text, and returns the match. Throws with its output and its log if it ended, or if it
   * took longer than `stopLimitMs`; then it is killed.
   */
  untilPrinted(pattern: RegExp): Promise<RegExpExecArray>;
  /** Waits in the same way for its address. */
  untilServing(): Promise<void>;
  /** Waits in the same way for its address and then for a 200 of health; accepts any certificate. */
  untilHealthy(): Promise<void>;
  /** Moves its clocks; only with the option `clock`. */
  moveClock(offsets: Offsets): Promise<void>;
  kill(signal: NodeJS.Signals): void;
  /** Sends the signal, and SIGKILL if the process has not ended after the limit. Returns what `ended` resolves with. */
  stop(signal?: NodeJS.Signals, stopLimitMs?: number): Promise<number>;
  /** Kills the process, if it still runs, and the PostgreSQL that is left in its `dataDir`. */
  end(): Promise<void>;
}

export interface ProcessOptions {
  readonly cwd: string;
  /** The whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** By default the user of the tests. */
  readonly user?: { readonly uid: number; readonly gid: number } | undefined;
  /** The files to which output and log are appended. By default both are kept in memory. */
  readonly files?: { readonly out: string; readonly err: string };
  /** A data folder in which the process runs its own PostgreSQL. */
  readonly dataDir?: string;
  /** By how much its clocks differ from those of this machine. A command for Node must load `moved_clock.ts` itself. */
  readonly clock?: Offsets | undefined;
  /** Whether Ctrl-C reaches only the program that starts it. */
  readonly isDetached?: boolean;
  /** How long each wait for its output or its health may take; by default {@linkcode START_LIMIT_MS}. */
  readonly limitMs?: number;
}

/** Long enough for a first start on a busy disk. */
const START_LIMIT_MS = 60_000;
/** Longer than the service allows itself for a stop (9.5 s), and shorter than the limit of a test. */
const STOP_LIMIT_MS = 20_000;

const CLOCK = join(import.meta.dir, "moved_clock.ts");

/** Runs this source on Bun. */
export const SOURCE: readonly string[] = [process.execPath, join(import.meta.dir, "../../src/main.ts")];

/** Returns the command that serves, by default on a port that the system chooses. It reads no settings of this machine. */
export function toServeCommand(program: readonly string[], args: readonly string[] = []): string[] {
  const port = args.includes("--port") ? [] : ["--port", "0"];
  return [...program, "serve", "--env-file", "/dev/null", ...port, ...args];
}

/** Returns the settings that give every endpoint this limit of requests a minute; 0 means no limit. */
export function limitSettings(perMinute: number): Record<string, string> {
  const limits = SETTINGS.filter(({ name }) => name.startsWith("CLAVIGER_LIMIT_"));
  return Object.fromEntries(limits.map(({ name }) => [name, String(perMinute)]));
}

/** Starts a process that prints the address at which it serves. Waits for nothing. */
export function spawnService(
  command: readonly string[],
  { cwd, env, user, files, dataDir, clock, isDetached = false, limitMs = START_LIMIT_MS }: ProcessOptions,
): ServiceProcess {
  const startedMs = performance.now();
  const logs = files && { out: openLog(files.out), err: openLog(files.err) };
  let onMoved = () => {};
  const child = Bun.spawn([...command], {
    cwd,
    env: {
      ...env,
      ...(clock && {
        // An executable made by Bun reads this variable too.
        BUN_OPTIONS: `--preload ${CLOCK}`,
        TEST_CLOCK_OFFSETS: JSON.stringify(clock),
      }),
    },
    stdin: "ignore",
    stdout: logs?.out.file ?? "pipe",
    stderr: logs?.err.file ?? "pipe",
    detached: isDetached,
    ...(user && { uid: user.uid, gid: user.gid }),
    ...(clock && { ipc: () => onMoved(), serialization: "json" }),
  });
  const out = logs?.out ?? collect(child.stdout as ReadableStream);
  const err = logs?.err ?? collect(child.stderr as ReadableStream);
  for (const log of Object.values(logs ?? {})) closeSync(log.file);
  const ended = (async () => {
    const status = await child.exited;
    await Promise.all([out.complete, err.complete]);
    return status;
  })();
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  let address: string | undefined;
  const url = () => {
    // Read once, because a load asks for it with every request.
    address ??= ADDRESS.exec(out.text())?.[1];
    if (address === undefined) throw new Error(`${command.join(" ")} has printed no address`);
    return address;
  };

  /** Waits for what `look` finds while the process runs. */
  async function untilFound<Found>(what: string, look: () => Found | Promise<Found>) {
    const lookOrThrow = async () => {
      const found = await look();
      if (!found && hasEnded()) throw new Error(`It ended with ${await ended}`);
      return found;
    };
    try {
      return await until(lookOrThrow, { what, limitMs });
    } catch (error) {
      child.kill("SIGKILL");
      await ended;
      const text = `${out.text()}${err.text()}`;
      throw new Error(`${command.join(" ")}: ${(error as Error).message}: ${text}`, { cause: error });
    }
  }
  const untilPrinted = (pattern: RegExp) =>
    untilFound(`it prints ${pattern}`, () => pattern.exec(out.text()));

  return {
    pid: child.pid,
    startedMs,
    get url() {
      return url();
    },
    get port() {
      return Number(new URL(url()).port);
    },
    out: out.text,
    err: err.text,
    ended,
    hasEnded,
    async untilServing() {
      await untilPrinted(ADDRESS);
    },
    async untilHealthy() {
      await untilPrinted(ADDRESS);
      const init = { tls: { rejectUnauthorized: false }, signal: AbortSignal.timeout(limitMs) };
      await untilFound("it is healthy", async () => {
        const answer = await fetch(`${url()}/api/health`, init).catch(() => undefined);
        return answer?.status === 200;
      });
    },
    untilPrinted,
    moveClock(offsets) {
      const moved = new Promise<void>((resolve) => (onMoved = resolve));
      child.send(offsets);
      return moved;
    },
    kill: (signal) => child.kill(signal),
    async stop(signal = "SIGTERM", stopLimitMs = STOP_LIMIT_MS) {
      child.kill(signal);
      const timer = setTimeout(() => child.kill("SIGKILL"), stopLimitMs);
      const status = await ended;
      clearTimeout(timer);
      return status;
    },
    async end() {
      if (!hasEnded()) child.kill("SIGKILL");
      await ended;
      if (dataDir !== undefined) await endPostgresOf(dataDir);
    },
  };
}

/** Ends the PostgreSQL that a killed process has left in its data folder, if there is one. */
export async function endPostgresOf(dataDir: string): Promise<void> {
  const cluster = join(dataDir, "postgres");
  if (existsSync(cluster)) await stopLeftovers({ cluster, clock: systemClock, graceMs: 0 });
}

/** The line of the address, in both formats of the log. */
const ADDRESS = /serves at ([^\s"]+)["\n]/;

interface Output {
  text(): string;
  /** Resolves when nothing can follow. */
  readonly complete: Promise<void>;
}

/** Opens a file, whose text begins where it ends now. */
function openLog(path: string): Output & { readonly file: number } {
  const file = openSync(path, "a");
  const { size } = fstatSync(file);
  const text = () => readFileSync(path).subarray(size).toString();
  return { file, text, complete: Promise.resolve() };
}

function collect(stream: ReadableStream<Uint8Array<ArrayBuffer>>): Output {
  let collected = "";
  const read = async () => {
    const decoder = new TextDecoder();
    for await (const chunk of stream) collected += decoder.decode(chunk, { stream: true });
  };
  return { text: () => collected, complete: read() };
}

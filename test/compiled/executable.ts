/** Runs the compiled executable in an empty folder with an empty environment, as an operator gets it. */
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { stopLeftovers } from "../../src/database/embedded/mod.ts";
import type { Ended } from "../cli/command_line.ts";
import { testFolder } from "../support/postgres.ts";
import { until } from "../support/until.ts";

export const builtExecutable = join(import.meta.dir, "../../dist/claviger");

/** The PATH with `sh`, `sed` and `curl`; the executable itself gets no PATH. */
const TOOLS = { PATH: "/usr/bin:/bin" };

export interface RunningProcess {
  readonly pid: number;
  readonly address: string;
  /** The address with its scheme, such as `https://127.0.0.1:8443`. */
  readonly url: string;
  /** Milliseconds from its start to the first 200 of health. */
  readonly readyMs: number;
  /** The output and the log so far. */
  readonly out: () => string;
  readonly err: () => string;
  /** Sends a signal; returns the exit status, or the signal's number above 128. */
  stop(signal?: NodeJS.Signals): Promise<number>;
}

export interface Place {
  readonly folder: string;
  /** Starts `serve` on a port that the system chooses and waits until it answers. */
  serve(dataDir: string, options?: ServeOptions): Promise<RunningProcess>;
  run(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<Ended>;
  /** Runs a line in a shell that finds `curl`. */
  shell(line: string): Promise<Ended>;
  /** Kills the processes that were started and removes all files. */
  remove(): Promise<void>;
}

export interface ServeOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

export const START_LIMIT_MS = 30_000;

export function createPlace(): Place {
  const folder = mkdtempSync(join(testFolder(), "claviger-executable-"));
  // If root runs this, PostgreSQL runs as another user, who must be able to enter.
  chmodSync(folder, 0o755);
  const executable = join(folder, "claviger");
  copyFileSync(builtExecutable, executable);
  chmodSync(executable, 0o755);
  const started: Bun.Subprocess[] = [];
  const dataDirs = new Set<string>();

  async function run(command: readonly string[], env: Readonly<Record<string, string>>): Promise<Ended> {
    const child = Bun.spawn([...command], {
      cwd: folder,
      env,
      stdout: "pipe",
      stderr: "pipe",
      stdin: "ignore",
    });
    started.push(child);
    const [out, err, status] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    return { status, out, err };
  }

  return {
    folder,
    run: (args, env = {}) => run(["./claviger", ...args], env),
    shell: (line) => run(["sh", "-c", line], TOOLS),
    async serve(dataDir, { args = [], env = {} } = {}) {
      dataDirs.add(dataDir);
      const beganMs = performance.now();
      const port = args.includes("--port") ? [] : ["--port", "0"];
      const child = Bun.spawn(["./claviger", "serve", ...port, "--data-dir", dataDir, ...args], {
        cwd: folder,
        env: { ...env },
        stdout: "pipe",
        stderr: "pipe",
        stdin: "ignore",
      });
      started.push(child);
      const out = collect(child.stdout);
      const err = collect(child.stderr);
      const look = () => {
        if (child.exitCode !== null) throw new Error(`The service ended with ${child.exitCode}: ${err.text}`);
        return /serves at ([^\s"]+)/.exec(out.text)?.[1];
      };
      const url = await until(look, { what: `${executable} serve`, limitMs: START_LIMIT_MS });
      const { host: address, protocol } = new URL(url);
      await waitUntilHealthy(address, protocol);
      return {
        pid: child.pid,
        address,
        url,
        readyMs: performance.now() - beganMs,
        out: () => out.text,
        err: () => err.text,
        async stop(signal = "SIGTERM") {
          child.kill(signal);
          const status = await child.exited;
          await Promise.all([out.done, err.done]);
          return status;
        },
      };
    },
    async remove() {
      for (const child of started) {
        if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
        await child.exited;
      }
      for (const dataDir of dataDirs) {
        const cluster = join(dataDir, "postgres");
        if (existsSync(cluster)) await stopLeftovers({ cluster, clock: systemClock, graceMs: 0 });
      }
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Waits for the first 200 of health; accepts any certificate. */
export async function waitUntilHealthy(address: string, protocol = "http:"): Promise<void> {
  const tls = { rejectUnauthorized: false };
  const look = async () => {
    const answer = await fetch(`${protocol}//${address}/api/health`, { tls }).catch(() => undefined);
    return answer?.status === 200;
  };
  await until(look, { what: `a healthy ${address}`, limitMs: START_LIMIT_MS });
}

/** Returns the pid of the PostgreSQL that serves a data folder. */
export function postmasterOf(dataDir: string): number {
  return Number(readFileSync(join(dataDir, "postgres/postmaster.pid"), "utf8").split("\n")[0]);
}

/** Makes a folder whose path is too long for the address of a socket in it. */
export function longPath(folder: string): string {
  const parent = join(folder, "d".repeat(120));
  mkdirSync(parent);
  return join(parent, "e".repeat(120));
}

function collect(stream: ReadableStream<Uint8Array<ArrayBuffer>>): { text: string; done: Promise<void> } {
  const collected = { text: "", done: Promise.resolve() };
  collected.done = (async () => {
    const decoder = new TextDecoder();
    for await (const chunk of stream) collected.text += decoder.decode(chunk, { stream: true });
  })();
  return collected;
}

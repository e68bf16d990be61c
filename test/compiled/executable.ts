/** Runs the compiled executable in an empty folder with an empty environment, as an operator gets it. */
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Ended } from "../cli/command_line.ts";
import { testFolder } from "../support/postgres.ts";
import { type ServiceProcess, spawnService } from "../support/service_process.ts";

export const builtExecutable = join(import.meta.dir, "../../dist/claviger");

/** The PATH with `sh`, `sed` and `curl`; the executable itself gets no PATH. */
const TOOLS = { PATH: "/usr/bin:/bin" };

export interface Place {
  readonly folder: string;
  /** Starts `serve` on a port that the system chooses and waits until it answers. */
  serve(dataDir: string, options?: ServeOptions): Promise<ServiceProcess>;
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

/** Shorter than the limit of a test, so that a start that hangs shows its log. */
export const START_LIMIT_MS = 30_000;

export function createPlace(): Place {
  const folder = mkdtempSync(join(testFolder(), "claviger-executable-"));
  // If root runs this, PostgreSQL runs as another user, who must be able to enter.
  chmodSync(folder, 0o755);
  const executable = join(folder, "claviger");
  copyFileSync(builtExecutable, executable);
  chmodSync(executable, 0o755);
  const commands: Bun.Subprocess[] = [];
  const services: ServiceProcess[] = [];

  async function run(command: readonly string[], env: Readonly<Record<string, string>>): Promise<Ended> {
    const child = Bun.spawn([...command], {
      cwd: folder,
      env,
      stdout: "pipe",
      stderr: "pipe",
      stdin: "ignore",
    });
    commands.push(child);
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
      const port = args.includes("--port") ? [] : ["--port", "0"];
      const service = spawnService(["./claviger", "serve", ...port, "--data-dir", dataDir, ...args], {
        ...{ cwd: folder, env, dataDir, limitMs: START_LIMIT_MS },
      });
      services.push(service);
      await service.untilHealthy();
      return service;
    },
    async remove() {
      for (const child of commands) {
        child.kill("SIGKILL");
        await child.exited;
      }
      for (const service of services) await service.end();
      rmSync(folder, { recursive: true, force: true });
    },
  };
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

/**
 * Runs the service under the crash test as a separate process in its own process group, so that Ctrl-C reaches only
 * the test program. The service's output and log go to files, which stay as evidence.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, existsSync, openSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { TEST_SECRET } from "../support/secrets.ts";

export interface Program {
  readonly command: readonly string[];
  /** For output to people: the executable, or the source. */
  readonly name: string;
  readonly isExecutable: boolean;
}

const root = join(import.meta.dir, "../..");
const executable = join(root, "dist/claviger");
const fromSource: Program = {
  command: [process.execPath, join(root, "src/main.ts")],
  name: "bun src/main.ts",
  isExecutable: false,
};

/** Returns the executable if it is not older than its sources; otherwise the source on Bun. */
export function findProgram(options: { readonly fromSource?: boolean } = {}): Program {
  if (options.fromSource || !existsSync(executable)) return fromSource;
  const builtMs = statSync(executable).mtimeMs;
  const isOlder = ["src", "sql"].some((folder) => newestMs(join(root, folder)) > builtMs);
  return isOlder ? fromSource : { command: [executable], name: "dist/claviger", isExecutable: true };
}

function newestMs(folder: string): number {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  return Math.max(...entries.map((entry) => statSync(join(entry.parentPath, entry.name)).mtimeMs));
}

export interface RunningService {
  readonly pid: number;
  readonly port: number;
  readonly startedMs: number;
  /** Resolves with the exit status or the name of the signal, when the process has ended. */
  readonly ended: Promise<number | string>;
  readonly hasEnded: () => boolean;
  kill(signal: NodeJS.Signals): void;
  /** Moves the service's wall clock; only with `isClockMovable`. */
  moveClock(wallMs: number): Promise<void>;
}

export interface StartOptions {
  readonly program: Program;
  /** The folder for the output, which is appended to `NAME.out` and `NAME.err`. */
  readonly folder: string;
  readonly name: string;
  readonly dataDir: string;
  /** Without a URL the service runs its own database. */
  readonly databaseUrl?: string;
  readonly isClockMovable?: boolean;
  /** Called with a function that kills the process, before the service is ready. */
  readonly onSpawned: (kill: () => void) => void;
}

/** Long enough for a busy machine. */
const START_DEADLINE_MS = 60_000;
const CLOCK = join(import.meta.dir, "../support/moved_clock.ts");
/** No limits: this test is about faults. */
const LIMITS = Object.fromEntries(
  ["VALIDATE", "REFRESH", "REVOKE", "REPO_TOKEN", "MODELS", "ANALYTICS"].map((name) => [
    `CLAVIGER_LIMIT_${name}`,
    "0",
  ]),
);

/** Starts `serve` and waits until it prints its address. */
export async function startServiceProcess(options: StartOptions): Promise<RunningService> {
  const { program, folder, name, databaseUrl, isClockMovable = false } = options;
  const [file = "", ...args] = program.command;
  const outPath = join(folder, `${name}.out`);
  const out = openSync(outPath, "a");
  const err = openSync(join(folder, `${name}.err`), "a");
  const printedBefore = readFileSync(outPath, "utf8").length;
  const startedMs = performance.now();
  const child = spawn(
    file,
    [...args, "serve", "--port", "0", "--data-dir", options.dataDir, "--env-file", "/dev/null"],
    {
      cwd: folder,
      detached: true,
      env: {
        PATH: "/usr/bin:/bin",
        ...LIMITS,
        ...(databaseUrl !== undefined && { DATABASE_URL: databaseUrl, CLAVIGER_SECRET: TEST_SECRET }),
        ...(isClockMovable && {
          // An executable made by Bun reads this variable too.
          BUN_OPTIONS: `--preload ${CLOCK}`,
          TEST_CLOCK_OFFSETS: JSON.stringify({ wallMs: 0, monotonicMs: 0 }),
        }),
      },
      stdio: isClockMovable ? ["ignore", out, err, "ipc"] : ["ignore", out, err],
      serialization: "json",
    },
  );
  options.onSpawned(() => child.kill("SIGKILL"));
  closeSync(out);
  closeSync(err);
  let how: number | string | undefined;
  const ended = new Promise<number | string>((resolve) => {
    const end = (outcome: number | string) => {
      how = outcome;
      resolve(outcome);
    };
    child.once("error", (error) => end(error.message));
    child.once("exit", (code, signal) => end(signal ?? code ?? "nothing"));
  });

  const port = await readPort();
  return {
    pid: child.pid ?? -1,
    port,
    startedMs,
    ended,
    hasEnded: () => how !== undefined,
    kill: (signal) => void child.kill(signal),
    moveClock: (wallMs) => moveClock(child, wallMs),
  };

  async function readPort(): Promise<number> {
    while (performance.now() - startedMs < START_DEADLINE_MS) {
      const printed = readFileSync(outPath, "utf8").slice(printedBefore);
      const found = /serves at http:\/\/127\.0\.0\.1:(\d+)\n/.exec(printed)?.[1];
      if (found !== undefined) return Number(found);
      if (how !== undefined) throw new Error(`The service did not start (${how}): see ${folder}/${name}.err`);
      await Bun.sleep(5);
    }
    child.kill("SIGKILL");
    throw new Error(`The service did not start in ${START_DEADLINE_MS} ms: see ${folder}/${name}.err`);
  }
}

function moveClock(child: ChildProcess, wallMs: number): Promise<void> {
  const moved = new Promise<void>((resolve) => child.once("message", () => resolve()));
  child.send({ wallMs, monotonicMs: 0 });
  return moved;
}

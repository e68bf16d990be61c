/**
 * Runs the command line in this process: with an operator's input, and with the output that the operator
 * would see.
 */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { type Clock, systemClock } from "../../src/base/clock.ts";
import { bunPlatform } from "../../src/base/platform/bun/mod.ts";
import { type Invocation, runCommandLine } from "../../src/cli/mod.ts";
import { copySample, testFolder } from "../support/postgres.ts";

export interface Ended {
  readonly status: number;
  readonly out: string;
  readonly err: string;
}

export interface RunOptions {
  /** The text at standard input. */
  readonly input?: string | Uint8Array;
  readonly env?: Readonly<Record<string, string>>;
  readonly isTerminal?: boolean;
  /** The width of the terminal at standard output; by default there is no terminal. */
  readonly columns?: number;
  /** Whether standard input is a terminal. */
  readonly isTyped?: boolean;
  /** By default the real one. */
  readonly clock?: Clock;
  /** Whether root runs the command; by default the user of this process. */
  readonly isRoot?: boolean;
  /** A signal that is sent while the command starts, or when it resolves. */
  readonly signal?: string | Promise<string>;
  /** Called after each output of the command. */
  readonly onOut?: () => void;
  /** Awaited before each answer at a terminal. */
  readonly onAsked?: () => unknown;
}

/** It is stopped at the end of an `await using` block, too. */
export interface RunningService extends AsyncDisposable {
  readonly url: string;
  /** The output up to the moment when it was ready. */
  readonly out: string;
  /** Sends SIGTERM and waits for the service's end. */
  stop(): Promise<Ended>;
}

/** It is removed at the end of a `using` block, too. */
export interface CommandLine extends Disposable {
  /** A new folder with the data folder and the files that a test writes. */
  readonly folder: string;
  readonly dataDir: string;
  /** Runs a command with exactly these arguments. */
  run(args: readonly string[], options?: RunOptions): Promise<Ended>;
  /** Runs a command on the data folder; reads no settings file of this machine. */
  here(args: readonly string[], options?: RunOptions): Promise<Ended>;
  /** Runs a command with `--json` and returns its parsed output; throws if the command fails. */
  // biome-ignore lint/suspicious/noExplicitAny: tests read documents of every shape.
  json(args: readonly string[], options?: RunOptions): Promise<any>;
  /** Runs `serve`, by default on a port that the system chooses. */
  serve(args?: readonly string[], options?: RunOptions): Promise<RunningService>;
  write(name: string, text: string): string;
  remove(): void;
}

export interface CommandLineOptions {
  /** Whether the data folder exists at once, with a database without rows, so that no first start has to make it. */
  readonly prepared?: boolean;
}

export function createCommandLine({ prepared = false }: CommandLineOptions = {}): CommandLine {
  const folder = mkdtempSync(join(testFolder(), "cli-"));
  // The user who runs PostgreSQL for root must be able to enter.
  chmodSync(folder, 0o711);
  const dataDir = join(folder, "data");
  if (prepared) copySample(dataDir);
  const write = (name: string, text: string) => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };
  const envFile = write("empty.env", "");
  const place = ["--data-dir", dataDir, "--env-file", envFile];

  async function run(args: readonly string[], options: RunOptions = {}): Promise<Ended> {
    const { invocation, seen } = createTestInvocation(folder, options);
    return { status: await runCommandLine(args, invocation), ...seen };
  }
  const here = (args: readonly string[], options?: RunOptions) => run([...args, ...place], options);
  const remove = () => rmSync(folder, { recursive: true, force: true });

  return {
    folder,
    dataDir,
    run,
    here,
    write,
    async json(args, options) {
      const { status, out, err } = await here([...args, "--json"], options);
      if (status !== 0) throw new Error(err);
      return JSON.parse(out);
    },
    async serve(args = [], options = {}) {
      const terminate = Promise.withResolvers<string>();
      const ready = Promise.withResolvers<void>();
      const { invocation, seen } = createTestInvocation(folder, options);
      const usual = { "--port": "0", "--data-dir": dataDir, "--env-file": envFile };
      const missing = Object.entries(usual).filter(([option]) => !args.includes(option));
      const ended = runCommandLine(["serve", ...missing.flat(), ...args], {
        ...invocation,
        untilSignal: () => terminate.promise,
        env: {
          // No client has to notice the stop.
          CLAVIGER_STOP_GRACE: "0",
          ...invocation.env,
          // `serve` reads this last, when it tells the service manager that the service is ready.
          get NOTIFY_SOCKET() {
            if (seen.out.includes("Its data is in")) ready.resolve();
            return invocation.env.NOTIFY_SOCKET;
          },
        },
      });
      await Promise.race([ready.promise, ended]);
      const url = /serves at ([^\s"]+)/.exec(seen.out)?.[1];
      if (url === undefined) throw new Error(seen.err);
      const stop = async () => {
        terminate.resolve("SIGTERM");
        return { status: await ended, ...seen };
      };
      return {
        url,
        out: seen.out,
        stop,
        async [Symbol.asyncDispose]() {
          await stop();
        },
      };
    },
    remove,
    [Symbol.dispose]: remove,
  };
}

interface Found {
  readonly name: string;
  readonly state: string;
  readonly message: string;
  readonly remedy?: string;
}

/** Reads the output of `doctor --json`: all findings, and a function that returns the finding with a name. */
export function readFindings({ status, out, err }: Ended) {
  const { findings } = JSON.parse(out) as { findings: Found[] };
  return { status, err, findings, of: (name: string) => findings.find((finding) => finding.name === name) };
}

/** A key that `keys issue --json` has issued. */
export interface Issued {
  readonly id: string;
  readonly api_key: string;
  readonly user_id: string;
  readonly email: string;
  readonly expires_at: string;
  readonly external_id?: string;
}

/** Returns a function that issues research keys, each to another person; it takes further options of the command. */
export function createIssuer(line: Pick<CommandLine, "json">): (...more: string[]) => Promise<Issued> {
  let people = 0;
  return (...more) => {
    const email = `owner-${++people}@example.org`;
    return line.json(["keys", "issue", "--email", email, "--tier", "research", ...more]);
  };
}

/** Returns the invocation of a command, and the output that it writes there. */
export function createTestInvocation(
  folder: string,
  options: RunOptions,
): { invocation: Invocation; seen: Seen } {
  const seen: Seen = { out: "", err: "" };
  const {
    input = "",
    env = {},
    isTerminal = false,
    columns,
    isTyped = false,
    clock = systemClock,
    isRoot = process.getuid?.() === 0,
    signal,
    onOut,
    onAsked,
  } = options;
  const invocation: Invocation = {
    platform: bunPlatform,
    clock,
    programName: "./claviger",
    env,
    workingFolder: folder,
    isRoot,
    userName: "olga",
    isTerminal,
    columns,
    isTyped,
    hasColours: !env.NO_COLOR,
    input: Readable.from([Buffer.from(input)]),
    out(text) {
      seen.out += text;
      onOut?.();
    },
    err(text) {
      seen.err += text;
    },
    async readInput(limit, prompt = "") {
      seen.err += prompt;
      await onAsked?.();
      return Buffer.byteLength(input) > limit ? undefined : input.toString();
    },
    untilSignal: () => (signal === undefined ? new Promise(() => {}) : Promise.resolve(signal)),
  };
  return { invocation, seen };
}

interface Seen {
  out: string;
  err: string;
}

/**
 * Returns the sentence of a refusal: one line on standard error and no other output. Throws for any other
 * ending. `exit_status_test.ts` has the refusals for which `serve` ends with 78.
 */
export function refusalOf({ status, out, err }: Ended): string {
  if ((status !== 1 && status !== 78) || out !== "" || !/^claviger: [^\n]+\n$/.test(err)) {
    throw new Error(`Not a refusal: ${JSON.stringify({ status, out, err })}`);
  }
  return err.slice("claviger: ".length, -1);
}

/** Returns the sentence about wrong usage; throws for any other ending. */
export function usageErrorOf({ status, out, err }: Ended): string {
  if (status !== 2 || out !== "" || !/^claviger: [^\n]+\n$/.test(err)) {
    throw new Error(`Not wrong usage: ${JSON.stringify({ status, out, err })}`);
  }
  return err.slice("claviger: ".length, -1);
}

/** Runs this program again as another user. Its input, its output and signals go through this process. */
import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import type { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import type { SystemUser } from "../system_users.ts";
import { CommandRefused } from "./run.ts";
import type { OwnProgram, StopSignal, Surroundings } from "./surroundings.ts";

/** The other process's descriptors: what is handed over, the file that it writes, the first file that it reads. */
export const HAND_OVER_FD = 3;
export const OUTPUT_FD = 4;
export const FIRST_FILE_FD = 5;

export interface RunOptions {
  readonly program: OwnProgram;
  readonly args: readonly string[];
  readonly handOver: string;
  /** Whether the command reads standard input; otherwise the input is left for the next program. */
  readonly hasInput: boolean;
  readonly descriptors: readonly number[];
  /** Writes the command's file. `source` throws when the command has failed: the file is then not whole. */
  readonly keepOutput: ((source: AsyncIterable<Uint8Array>) => Promise<unknown>) | undefined;
  readonly onSignal: Surroundings["onSignal"];
}

/** Longer than a command needs to end in order. */
const STOP_LIMIT_MS = 20_000;
const HURRY_LIMIT_MS = 1_000;
/** For output that is not read yet: a process that the owner left behind may keep the pipes open for ever. */
const LAST_WORDS_MS = 1_000;
const HELD_LIMIT_BYTES = 1024 * 1024;
const SIGNALS: readonly StopSignal[] = ["SIGTERM", "SIGINT", "SIGHUP"];

/** Resolves with the exit status, or 128 and the number of the signal that ended it. */
export async function runAs(user: SystemUser, options: RunOptions): Promise<number> {
  const { program, keepOutput } = options;
  const child = start(user, options);
  const ended = untilEnd(child, user);
  forwardSignals(child, options.onSignal);
  // The process could not be started, so there are no pipes: `ended` rejects with the reason.
  if (child.pid === undefined) return await ended;
  send(child.stdio[HAND_OVER_FD] as Writable, options.handOver);
  const { stdin } = child;
  if (stdin !== null) void relay(program.input, stdin).then(() => stdin.end());

  // The command reports its file before the file is in its place: the report is held until then.
  const held: Buffer[] = [];
  let isMuted = false;
  const out = keepOutput === undefined ? relay(child.stdout, program.output) : hold(child.stdout, held);
  const err = relay(child.stderr, program.errors, () => isMuted);
  if (keepOutput !== undefined) {
    const whole = wholeOutput(child.stdio[OUTPUT_FD] as Readable, ended);
    try {
      await keepOutput(whole);
    } catch (error) {
      if (!(error instanceof NotWhole)) {
        // The command sees only that its pipe was closed: its message is left out, since `error` has the reason.
        isMuted = true;
        (child.stdio[OUTPUT_FD] as Readable).destroy();
        await ended;
        throw error;
      }
    }
  }
  const status = await ended;
  await Promise.race([Promise.all([out, err]), sleep(LAST_WORDS_MS)]);
  if (status === 0) for (const bytes of held) await write(program.output, bytes);
  return status;
}

function start(
  { uid, gid, name }: SystemUser,
  { program, args, descriptors, ...options }: RunOptions,
): ChildProcess {
  try {
    return spawn(program.file, [...program.args, ...args], {
      cwd: "/",
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", HOME: "/" },
      // A session of its own: a process of the terminal's session could type into the terminal.
      detached: true,
      // Node and Bun drop root's supplementary groups with it.
      uid,
      gid,
      stdio: [
        options.hasInput ? "pipe" : "ignore",
        "pipe",
        "pipe",
        "pipe",
        options.keepOutput === undefined ? "ignore" : "pipe",
        ...descriptors,
      ],
    });
  } catch (error) {
    throw cannotStart(name, error);
  }
}

function cannotStart(name: string, error: unknown): CommandRefused {
  const why = error instanceof Error ? error.message : String(error);
  return new CommandRefused(
    `Cannot run as user ${name}, the owner of the data folder: ${why}; put the program where every user may run ` +
      "it, such as /usr/local/bin",
  );
}

function untilEnd(child: ChildProcess, { name }: SystemUser): Promise<number> {
  const ended = new Promise<number>((resolve, reject) => {
    child.once("error", (error) => reject(cannotStart(name, error)));
    child.once("exit", (code, signal) =>
      resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])),
    );
  });
  // Awaited later: until then a rejection must not end this process as unhandled.
  ended.catch(() => {});
  return ended;
}

function forwardSignals(child: ChildProcess, onSignal: Surroundings["onSignal"]): void {
  let count = 0;
  for (const signal of SIGNALS) {
    onSignal?.(signal, () => {
      child.kill(signal);
      setTimeout(() => child.kill("SIGKILL"), count++ === 0 ? STOP_LIMIT_MS : HURRY_LIMIT_MS).unref();
    });
  }
}

function send(pipe: Writable, text: string): void {
  // It may end before it has read anything: its status says so.
  pipe.on("error", () => {});
  pipe.end(text);
}

/** Passes bytes on until their end. When the reader is gone, the sender's pipe is closed, so that it stops. */
async function relay(
  from: Readable | null,
  to: Writable,
  isMuted: () => boolean = () => false,
): Promise<void> {
  if (from === null) return;
  to.on("error", () => {});
  try {
    for await (const bytes of from) if (!isMuted()) await write(to, bytes);
  } catch {
    from.destroy();
  }
}

function write(to: Writable, bytes: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    to.write(bytes, (error) => (error ? reject(error) : resolve()));
  });
}

async function hold(from: Readable | null, held: Buffer[]): Promise<void> {
  let size = 0;
  for await (const bytes of from ?? []) {
    size += bytes.length;
    if (size <= HELD_LIMIT_BYTES) held.push(bytes);
  }
}

class NotWhole extends Error {}

/** Gives the bytes of the command's file; throws at their end when the command has failed. */
async function* wholeOutput(from: Readable, ended: Promise<number>): AsyncGenerator<Uint8Array> {
  yield* from;
  if ((await ended) !== 0) throw new NotWhole("The command failed");
}

/** Runs this program again as another user. Its input, its output and signals go through this process. */
import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import type { Readable, Writable } from "node:stream";
import { setImmediate as pause, setTimeout as sleep } from "node:timers/promises";
import type { SystemUser } from "../host/mod.ts";
import { reasonOf } from "../system_error.ts";
import { escapeLines } from "../text/mod.ts";
import { CommandRefused, refuseLostOutput } from "./run.ts";
import type { OwnProgram, StopSignal, Surroundings } from "./surroundings.ts";

/** Descriptors of the other process: the pipe with the hand-over, the file that it writes, the first file that it reads. */
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
  /** Writes the command's file. `source` throws if the command has failed, because the file is then incomplete. */
  readonly keepOutput: ((source: AsyncIterable<Uint8Array>) => Promise<unknown>) | undefined;
  readonly onSignal: Surroundings["onSignal"];
}

/** The time to end after a signal: longer than a command needs to end in order. */
const STOP_LIMIT_MS = 20_000;
const FORCE_LIMIT_MS = 1_000;
/** The time to read output after the command has ended: a process that the owner left behind may keep the pipes open. */
const LATE_OUTPUT_MS = 1_000;
/** More bytes than a pipe and its reader can hold. */
const LATE_OUTPUT_BYTES = 2 * 1024 * 1024;
const CHECK_INTERVAL_MS = 50;
const HELD_LIMIT_BYTES = 1024 * 1024;
const SIGNALS: readonly StopSignal[] = ["SIGTERM", "SIGINT", "SIGHUP"];

/**
 * Runs the program as another user. Resolves with its exit status, or with 128 plus the number of the signal that
 * ended it.
 */
export async function runAs(user: SystemUser, options: RunOptions): Promise<number> {
  const { program, keepOutput } = options;
  const child = start(user, options);
  const ended = untilEnd(child, user);
  const stopped = forwardSignals(child, options.onSignal);
  // The process could not be started, so there are no pipes: `ended` rejects with the reason.
  if (child.pid === undefined) return await ended;
  send(child.stdio[HAND_OVER_FD] as Writable, options.handOver);
  const { stdin } = child;
  if (stdin !== null) void relay(program.input, stdin).then(() => stdin.end());

  // The command reports that the file is written before root has put the file in its place: the report waits for that.
  const held: string[] = [];
  let isMuted = false;
  const shown = toText(readPipe(child.stdout as Readable, ended));
  const out = keepOutput === undefined ? relay(shown, program.output) : hold(shown, held);
  const err = relay(toText(readPipe(child.stderr as Readable, ended)), program.errors, () => isMuted);
  if (keepOutput !== undefined) {
    const file = child.stdio[OUTPUT_FD] as Readable;
    try {
      await keepOutput(wholeOutput(file, ended, user));
    } catch (error) {
      if (!(error instanceof NotWhole)) {
        // The command sees only that its pipe was closed: its message is left out, since `error` has the reason.
        isMuted = true;
        file.destroy();
        setTimeout(() => child.kill("SIGKILL"), STOP_LIMIT_MS).unref();
        await ended;
        throw error;
      }
    }
  }
  const status = await ended;
  // A slow reader of our output gets all of it, unless a signal asks us to stop.
  await Promise.race([Promise.all([out, err]), stopped.then(() => sleep(LATE_OUTPUT_MS))]);
  if (status !== 0) return status;
  refuseLostOutput(keepOutput === undefined ? await out : await relay(held, program.output));
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
      // With a uid, Node and Bun also drop root's supplementary groups.
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
  const why = reasonOf(error);
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

/** Forwards each signal to the process, and kills it if it does not end in time. Resolves at the first signal. */
function forwardSignals(child: ChildProcess, onSignal: Surroundings["onSignal"]): Promise<void> {
  let count = 0;
  return new Promise((resolve) => {
    for (const signal of SIGNALS) {
      onSignal?.(signal, () => {
        resolve();
        child.kill(signal);
        setTimeout(() => child.kill("SIGKILL"), count++ === 0 ? STOP_LIMIT_MS : FORCE_LIMIT_MS).unref();
      });
    }
  });
}

function send(pipe: Writable, text: string): void {
  // The process may end before it has read the text: its exit status tells that.
  pipe.on("error", () => {});
  pipe.end(text);
}

class HeldOpen extends Error {}

/**
 * Reads a pipe until it is closed. A process that the owner left behind may keep it open: then this reads the output
 * that the command wrote before its end, and throws {@linkcode HeldOpen}.
 */
async function* readPipe(from: Readable, ended: Promise<unknown>): AsyncGenerator<Uint8Array> {
  let hasEnded = false;
  let isWaiting = true;
  let [waitedMs, size] = [0, 0];
  let timer: NodeJS.Timeout | undefined;
  const check = () => {
    if (isWaiting) waitedMs += CHECK_INTERVAL_MS;
    if (waitedMs >= LATE_OUTPUT_MS) from.destroy(new HeldOpen());
  };
  const watch = () => {
    hasEnded = true;
    if (!from.readableEnded) timer = setInterval(check, CHECK_INTERVAL_MS);
  };
  ended.then(watch, watch);
  try {
    for await (const bytes of from) {
      if (hasEnded) size += bytes.length;
      if (size > LATE_OUTPUT_BYTES) throw new HeldOpen();
      isWaiting = false;
      // Without this pause Bun reads while there is something to read: with an endless stream no signal would be handled.
      await pause();
      yield bytes;
      isWaiting = true;
    }
  } finally {
    clearInterval(timer);
  }
}

/** Decodes text and escapes the control characters, which could control root's terminal. */
async function* toText(source: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  for await (const bytes of source) yield escapeLines(decoder.decode(bytes, { stream: true }));
}

/**
 * Passes output on until its end. If it cannot be written, the sender's pipe is closed, so that the sender stops; then
 * this resolves with the error.
 */
async function relay(
  from: AsyncIterable<string> | Iterable<string>,
  to: Writable,
  isMuted: () => boolean = () => false,
): Promise<unknown> {
  to.on("error", () => {});
  try {
    for await (const text of from) {
      const fault = isMuted() ? undefined : await write(to, text);
      if (fault !== undefined) return fault;
    }
  } catch {
    // Another process kept the pipe open: the output that came before is passed on.
  }
  return undefined;
}

function write(to: Writable, chunk: Uint8Array | string): Promise<unknown> {
  return new Promise((resolve) => {
    to.write(chunk, (error) => resolve(error ?? undefined));
  });
}

async function hold(from: AsyncIterable<string>, held: string[]): Promise<void> {
  let size = 0;
  try {
    for await (const chunk of from) {
      size += chunk.length;
      if (size <= HELD_LIMIT_BYTES) held.push(chunk);
    }
  } catch {
    // Another process kept the pipe open: the output that came before is in `held`.
  }
}

class NotWhole extends Error {}

/** Yields the bytes of the command's file; throws at their end if the command has failed, or if another process can write more. */
async function* wholeOutput(
  from: Readable,
  ended: Promise<number>,
  { name }: SystemUser,
): AsyncGenerator<Uint8Array> {
  let isHeld = false;
  try {
    yield* readPipe(from, ended);
  } catch (error) {
    if (!(error instanceof HeldOpen)) throw error;
    isHeld = true;
  }
  if ((await ended) !== 0) throw new NotWhole("The command failed");
  if (isHeld) {
    throw new CommandRefused(
      `Cannot keep the file: a process of user ${name} still writes it, and the command has ended; see what ` +
        `that user runs (\`ps -u ${name}\`)`,
    );
  }
}

/** Runs this program again as another user, over pipes alone, and passes on what goes in and out, and signals. */
import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import type { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import type { SystemUser } from "../system_users.ts";
import { CommandRefused } from "./run.ts";
import type { Again, StopSignal, Surroundings } from "./surroundings.ts";

/** Where the other process finds what goes to it, where it writes its file, and the first file it was given. */
export const HAND_OVER_FD = 3;
export const OUTPUT_FD = 4;
export const FIRST_FILE_FD = 5;

export interface RunOptions {
  readonly again: Again;
  readonly args: readonly string[];
  readonly handOver: string;
  /** Whether it gets our standard input: else it is left for whoever runs next. */
  readonly hasInput: boolean;
  readonly descriptors: readonly number[];
  /** Keeps the file that it writes; what `source` throws says that the file is not whole. */
  readonly keepOutput: ((source: AsyncIterable<Uint8Array>) => Promise<unknown>) | undefined;
  readonly onSignal: Surroundings["onSignal"];
}

/** Beyond the time in which a command ends in order. */
const STOP_LIMIT_MS = 20_000;
const HURRY_LIMIT_MS = 1_000;
/** For what was written and not yet read: whoever took the process over may keep its pipes open for ever. */
const LAST_WORDS_MS = 1_000;
const HELD_LIMIT_BYTES = 1024 * 1024;
const SIGNALS: readonly StopSignal[] = ["SIGTERM", "SIGINT", "SIGHUP"];

/** Resolves with the exit status, or 128 and the number of the signal that ended it. */
export async function runAs(user: SystemUser, options: RunOptions): Promise<number> {
  const { again, keepOutput } = options;
  const child = start(user, options);
  const ended = untilEnd(child, user);
  forwardSignals(child, options.onSignal);
  // Without a process there are no pipes: why there is none comes a moment later.
  if (child.pid === undefined) return await ended;
  send(child.stdio[HAND_OVER_FD] as Writable, options.handOver);
  const { stdin } = child;
  if (stdin !== null) void relay(again.input, stdin).then(() => stdin.end());

  // What it says of its file holds only once that is in its place.
  const held: Buffer[] = [];
  let isMuted = false;
  const out = keepOutput === undefined ? relay(child.stdout, again.output) : hold(child.stdout, held);
  const err = relay(child.stderr, again.errors, () => isMuted);
  if (keepOutput !== undefined) {
    const whole = wholeOutput(child.stdio[OUTPUT_FD] as Readable, ended);
    try {
      await keepOutput(whole);
    } catch (error) {
      if (!(error instanceof NotWhole)) {
        // It only sees that nobody reads any more: why, is said here.
        isMuted = true;
        (child.stdio[OUTPUT_FD] as Readable).destroy();
        await ended;
        throw error;
      }
    }
  }
  const status = await ended;
  await Promise.race([Promise.all([out, err]), sleep(LAST_WORDS_MS)]);
  if (status === 0) for (const bytes of held) await write(again.output, bytes);
  return status;
}

function start(
  { uid, gid, name }: SystemUser,
  { again, args, descriptors, ...options }: RunOptions,
): ChildProcess {
  try {
    return spawn(again.file, [...again.args, ...args], {
      cwd: "/",
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", HOME: "/" },
      // A session of its own: a process of the terminal's session could type into the terminal.
      detached: true,
      // Root's further groups go with the user: Node and Bun drop them.
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
    `Cannot run as user ${name}, to whom the data folder belongs: ${why}; put the program where every user may run ` +
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
  // Awaited later, too.
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

/** Passes bytes on until their end; where nobody takes them any more, whoever sends them learns it. */
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

/** Its file is whole where it ended well. */
async function* wholeOutput(from: Readable, ended: Promise<number>): AsyncGenerator<Uint8Array> {
  yield* from;
  if ((await ended) !== 0) throw new NotWhole("The command failed");
}

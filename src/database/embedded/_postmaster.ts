/** One run of the PostgreSQL server, from its start to its end. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import type { Account } from "./_account.ts";
import type { Binaries } from "./_binaries.ts";
import { bareEnvironment } from "./_cluster.ts";
import { readPostmasterFile } from "./_postmaster_file.ts";
import { explainError, explainOutput, followServerLog } from "./_server_log.ts";
import { fixedSettings, toArguments } from "./_settings.ts";

export interface PostmasterOptions {
  readonly cluster: string;
  readonly binaries: Binaries;
  readonly account: Account | undefined;
  readonly settings: Readonly<Record<string, string>>;
  /** How long it may take to accept connections; after a crash it first replays its log. */
  readonly startMs: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly isStopping: () => boolean;
}

export interface Postmaster {
  readonly pid: number;
  /** Settles when it has ended, with how it ended and what it said last. */
  readonly ended: Promise<string>;
}

/** Starts the server and waits until it accepts connections; rejects with its own last lines. */
export async function startPostmaster(options: PostmasterOptions): Promise<Postmaster> {
  const { cluster, clock, log } = options;
  const settings = { ...fixedSettings, ...options.settings };
  const child = spawn(join(options.binaries.bin, "postgres"), ["-D", cluster, ...toArguments(settings)], {
    cwd: "/",
    env: bareEnvironment,
    // A session of its own: Ctrl-C goes to all of a terminal's processes, and we want to drain first.
    detached: true,
    stdio: ["ignore", "ignore", "pipe"],
    ...options.account,
  });
  const output = followServerLog(child.stderr, options);
  let ending: string | undefined;
  const ended = new Promise<string>((resolve) => {
    const end = (how: string) => {
      ending = how;
      resolve(how);
    };
    child.on("error", (error) => end(`it could not be run: ${explainError(error)}`));
    child.on("exit", (code, signal) => {
      // Its last words may come after its end, but the pipe is not closed while children of it live.
      const closed = new Promise((close) => child.once("close", close));
      void Promise.race([closed, sleep(200)]).then(() =>
        end(`it ended with ${signal ?? `code ${code}`}. ${explainOutput(output.lastLines())}`),
      );
    });
  });
  const giveUp = async (why: string): Promise<never> => {
    // Immediate shutdown: nothing was served yet. It is heeded once PostgreSQL has read its settings; the children
    // of one that had to be killed are left to `stopLeftovers`.
    child.kill("SIGQUIT");
    await Promise.race([ended, sleep(500)]);
    child.kill("SIGKILL");
    await ended;
    throw new Error(`Cannot start PostgreSQL in ${cluster}: ${why}`);
  };

  const startedAt = clock.monotonicMs();
  let nextWordAt = startedAt + 5000;
  while (ending === undefined) {
    // First: whoever stops may have looked before the process had a name or a folder to be known by.
    if (options.isStopping()) return giveUp("it is being stopped");
    const file = readPostmasterFile(cluster);
    if (file !== undefined && file.pid === child.pid && file.status === "ready") {
      output.forget();
      return { pid: file.pid, ended };
    }
    const now = clock.monotonicMs();
    if (now - startedAt > options.startMs) {
      const seconds = Math.round(options.startMs / 1000);
      return giveUp(`not ready after ${seconds} s. ${explainOutput(output.lastLines())}`);
    }
    if (now > nextWordAt) {
      nextWordAt = now + 10_000;
      log.warn("PostgreSQL is not ready yet; after a crash it may need a while to recover");
    }
    await sleep(4);
  }
  throw new Error(`Cannot start PostgreSQL in ${cluster}: ${ending}`);
}

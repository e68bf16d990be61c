/** Starts the PostgreSQL server once and reports its end. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/log.ts";
import type { Binaries } from "./_binaries.ts";
import { bareEnvironment } from "./_cluster.ts";
import type { ClusterUser } from "./_cluster_user.ts";
import { DamagedData } from "./_data_fault.ts";
import { readPostmasterFile } from "./_postmaster_file.ts";
import { explainError, explainOutput, followServerLog } from "./_server_log.ts";
import { fixedSettings, toArguments } from "./_settings.ts";

export interface PostmasterOptions {
  readonly cluster: string;
  readonly binaries: Binaries;
  readonly clusterUser: ClusterUser | undefined;
  readonly settings: Readonly<Record<string, string>>;
  /** How long the server may take to accept connections; after a crash it first replays its write-ahead log. */
  readonly startMs: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly isStopping: () => boolean;
  /** Called with each line in which the server says that its data is damaged. */
  readonly onDamage: (said: string) => unknown;
}

/**
 * Starts the server and waits until it accepts connections; rejects with the server's last lines, or with
 * {@linkcode DamagedData}. `ended` resolves when the server has ended, to a text that says how, with its last lines.
 * `quit` ends the server without writing anything, also if its folder is gone.
 */
export async function startPostmaster(options: PostmasterOptions) {
  const { cluster, clock, log } = options;
  const settings = { ...fixedSettings, ...options.settings };
  const child = spawn(join(options.binaries.bin, "postgres"), ["-D", cluster, ...toArguments(settings)], {
    cwd: "/",
    env: bareEnvironment,
    // A process session of its own: Ctrl-C signals every process of the terminal, and the service must drain first.
    detached: true,
    stdio: ["ignore", "ignore", "pipe"],
    ...options.clusterUser,
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
      // The server's last lines may arrive after its end. But do not wait for the end of the pipe: it stays open while
      // a child of the server lives.
      const closed = new Promise((close) => child.once("close", close));
      void Promise.race([closed, sleep(200)]).then(() =>
        end(`it ended with ${signal ?? `code ${code}`}. ${explainOutput(output.lastLines())}`),
      );
    });
  });
  const giveUp = async (why: string): Promise<never> => {
    // Immediate shutdown is safe: the server has served nothing yet. PostgreSQL obeys SIGQUIT only after it has read
    // its settings, so SIGKILL follows. `stopLeftovers` ends the children of a killed server.
    child.kill("SIGQUIT");
    await Promise.race([ended, sleep(500)]);
    child.kill("SIGKILL");
    await ended;
    throw new Error(`Cannot start PostgreSQL in ${cluster}: ${why}`);
  };

  const startedAt = clock.monotonicMs();
  let nextWarningAt = startedAt + 5000;
  while (ending === undefined) {
    // Check this first: `stopLeftovers` may have looked before this process could be recognised by its program and
    // its folder.
    if (options.isStopping()) return giveUp("it is being stopped");
    const file = readPostmasterFile(cluster);
    if (file !== undefined && file.pid === child.pid && file.status === "ready") {
      output.forget();
      return { pid: file.pid, ended, quit: () => void child.kill("SIGQUIT") };
    }
    const now = clock.monotonicMs();
    if (now - startedAt > options.startMs) {
      const seconds = Math.round(options.startMs / 1000);
      return giveUp(`not ready after ${seconds} s. ${explainOutput(output.lastLines())}`);
    }
    if (now > nextWarningAt) {
      nextWarningAt = now + 10_000;
      log.warn("PostgreSQL is not ready yet; after a crash it may need a while to recover");
    }
    await sleep(4);
  }
  const damage = output.findDamage();
  if (damage !== undefined) throw new DamagedData(damage);
  throw new Error(`Cannot start PostgreSQL in ${cluster}: ${ending}`);
}

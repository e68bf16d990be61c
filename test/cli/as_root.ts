/**
 * For tests in which root runs commands on the data folder of an ordinary user. It has the program in a process of its
 * own, shell commands of that user, and a folder of root as the victim. Only root can act as both users.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { testFolder } from "../support/postgres.ts";

const PROGRAM = [process.execPath, join(import.meta.dir, "../../src/main.ts")] as const;

/** The ordinary user: nobody, who has a name, which initdb needs. */
export const USER = { uid: 65_534, gid: 65_534 } as const;

/** Whether these tests can run: root runs them, from a checkout that an ordinary user may read. */
export const canActAsBoth =
  process.getuid?.() === 0 && spawnSync("test", ["-r", PROGRAM[1]], { ...USER, cwd: "/" }).status === 0;
if (!canActAsBoth) {
  console.error(
    "Skipped: what root does in another user's folder is tested by root, in a checkout open to others",
  );
}

/** Ends a test's processes even if the test is killed; a signal reaches only the program. */
export const ENDING = ["--foreground", "--kill-after=5", "90"] as const;

export interface Ended {
  readonly status: number;
  readonly out: string;
  readonly err: string;
  readonly ms: number;
}

export interface RunOptions {
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Tells, from the output so far, whether the time has come to send SIGTERM. */
  readonly terminateWhen?: (out: string) => boolean;
  /** By default the user's data folder. */
  readonly dataDir?: string;
  /** The program and the words before its arguments; by default the source on Bun. */
  readonly program?: readonly string[];
}

export interface RootStage {
  /** A folder of root's that every user may read. */
  readonly folder: string;
  /** The user's home. */
  readonly home: string;
  readonly dataDir: string;
  /** A folder that only root may read, with a file `key` in it. */
  readonly victim: string;
  /** Runs a command as root on the user's data folder. */
  asRoot(args: readonly string[], options?: RunOptions): Promise<Ended>;
  /** Makes the user the owner of a path. */
  give(path: string): void;
  /** Runs a shell line as the user, in the data folder. */
  asUser(line: string): void;
  /** Repeats a shell line as the user until `end()` is called, or for a minute. */
  loopAsUser(line: string): { end(): Promise<void> };
  /** Holds the data folder's lock as the user. */
  holdLock(): { end(): void };
  readonly program: readonly string[];
  /** Returns the content, owners, modes and times of the victim's files. */
  lookAtVictim(): object;
  /** Throws if a file in the user's home belongs to another user. */
  expectOwnedByUser(): void;
  remove(): void;
}

export function createRootStage(): RootStage {
  const folder = mkdtempSync(join(testFolder(), "root-"));
  chmodSync(folder, 0o755);
  const home = join(folder, "home");
  mkdirSync(home, { mode: 0o755 });
  chownSync(home, USER.uid, USER.gid);
  const victim = join(folder, "victim");
  mkdirSync(join(victim, "below"), { recursive: true, mode: 0o700 });
  chmodSync(victim, 0o700);
  writeFileSync(join(victim, "key"), "18\n", { mode: 0o600 });
  writeFileSync(join(victim, "below/PG_VERSION"), "18\n", { mode: 0o600 });
  writeFileSync(join(folder, "empty.env"), "");
  const dataDir = join(home, "data");
  const envFile = join(folder, "empty.env");
  const hand = (line: string) => ["-c", line, "sh", victim] as const;

  return {
    folder,
    home,
    dataDir,
    victim,
    asRoot: (args, options) => {
      const settings = args.includes("--env-file") ? [] : ["--env-file", envFile];
      return run([...args, "--data-dir", options?.dataDir ?? dataDir, ...settings], { folder, ...options });
    },
    give: (path) => chownSync(path, USER.uid, USER.gid),
    asUser: (line) =>
      void execFileSync("sh", hand(line), { ...USER, cwd: dataDir, env: { PATH: "/usr/bin:/bin" } }),
    loopAsUser(line) {
      const child = spawn("timeout", ["60", "sh", ...hand(`while :; do ${line}; done`)], {
        ...USER,
        cwd: dataDir,
        env: { PATH: "/usr/bin:/bin" },
        stdio: "ignore",
        detached: true,
      });
      return { end: () => endGroup(child) };
    },
    holdLock() {
      const child = spawn("flock", ["lock", "sleep", "60"], {
        ...USER,
        cwd: dataDir,
        detached: true,
        stdio: "ignore",
      });
      return { end: () => void endGroup(child) };
    },
    program: PROGRAM,
    lookAtVictim: () =>
      Object.fromEntries(
        ["", ...readdirSync(victim, { recursive: true, encoding: "utf8" })].sort().map((name) => {
          const path = join(victim, name);
          const stat = statSync(path);
          const { uid, gid, mode, mtimeMs } = stat;
          return [
            name,
            {
              uid,
              gid,
              mode,
              mtimeMs,
              text: stat.isFile() ? readFileSync(path, "utf8") : "",
            },
          ];
        }),
      ),
    expectOwnedByUser() {
      const found = execFileSync("find", [home, "!", "-uid", String(USER.uid)], { encoding: "utf8" });
      if (found !== "") throw new Error(`These are not the user's: ${found}`);
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

async function run(
  args: readonly string[],
  { folder, input, env = {}, terminateWhen, program = PROGRAM }: RunOptions & { readonly folder: string },
): Promise<Ended> {
  const began = performance.now();
  const child = spawn("timeout", [...ENDING, ...program, ...args], {
    cwd: folder,
    env: { PATH: "/usr/bin:/bin", HOME: folder, ...env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let [out, err] = ["", ""];
  child.stdout.setEncoding("latin1").on("data", (text: string) => {
    out += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    err += text;
  });
  child.stdin.on("error", () => {});
  child.stdin.end(input ?? "");
  const watch = setInterval(() => {
    if (!terminateWhen?.(out)) return;
    child.kill("SIGTERM");
    clearInterval(watch);
  }, 10);
  const status = await new Promise<number>((resolve) => {
    child.on("close", (code) => resolve(code ?? -1));
  });
  clearInterval(watch);
  return { status, out, err, ms: performance.now() - began };
}

/** Ends the shell and the process that it runs. */
function endGroup(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.on("exit", () => resolve());
    process.kill(-(child.pid ?? 0), "SIGKILL");
  });
}

/**
 * For tests in which root and an ordinary user run the executable. Only root can act as both. It has a folder of the
 * user, and shell commands of any user.
 */
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Ended } from "../cli/command_line.ts";
import { testFolder } from "../support/postgres.ts";
import { builtExecutable } from "./executable.ts";
import { isBuilt } from "./installed.ts";

export interface User {
  readonly uid: number;
  readonly gid: number;
}
export const ROOT: User = { uid: 0, gid: 0 };
/** The ordinary user: nobody, who has a name, which initdb needs. */
export const NOBODY: User = { uid: 65_534, gid: 65_534 };

/** Whether these tests can run: root runs them, with an executable that an ordinary user may run. */
export const canActAsBoth =
  isBuilt &&
  process.getuid?.() === 0 &&
  spawnSync("test", ["-x", builtExecutable], { ...NOBODY, cwd: "/" }).status === 0;
if (!canActAsBoth) console.error("Skipped: root and other users' folders are tested by root");

export interface RunOptions {
  readonly input?: string | Uint8Array;
  readonly env?: Readonly<Record<string, string>>;
}

export interface TwoUsers {
  /** A folder of root that every user may read. */
  readonly folder: string;
  /** The user's home. */
  readonly home: string;
  /** Runs the executable as a user, in `folder`. */
  run(user: User, args: readonly string[], options?: RunOptions): Promise<Ended>;
  /** Runs a shell line as a user, in `folder`; throws if it fails. Returns its output. */
  shell(user: User, line: string): string;
  remove(): void;
}

export function createTwoUsers(): TwoUsers {
  const folder = mkdtempSync(join(testFolder(), "claviger-users-"));
  chmodSync(folder, 0o755);
  const home = join(folder, "home");
  mkdirSync(home);
  chownSync(home, NOBODY.uid, NOBODY.gid);
  writeFileSync(join(folder, "empty.env"), "");
  const env = { PATH: "/usr/bin:/bin" };
  return {
    folder,
    home,
    run: (user, args, { input = "", env: own } = {}) =>
      new Promise((resolve) => {
        // The limit ends the processes even if the test is killed; a signal reaches only the program.
        const command = ["--foreground", "--kill-after=5", "90", builtExecutable, ...args];
        const child = spawn("timeout", command, { ...user, cwd: folder, env: { ...env, ...own } });
        const ended = { out: "", err: "" };
        child.stdout.setEncoding("utf8").on("data", (text: string) => (ended.out += text));
        child.stderr.setEncoding("utf8").on("data", (text: string) => (ended.err += text));
        child.stdin.on("error", () => {}).end(input);
        child.on("close", (status) => resolve({ status: status ?? -1, ...ended }));
      }),
    shell(user, line) {
      const { status, stdout, stderr } = spawnSync("sh", ["-ec", line], {
        ...user,
        cwd: folder,
        env,
        encoding: "utf8",
      });
      if (status !== 0) throw new Error(`${line}: ${stderr}`);
      return stdout;
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

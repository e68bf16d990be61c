/** The result of a command that cannot be written: the program in a process of its own. */
import { expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { join } from "node:path";

const PROGRAM = [process.execPath, join(import.meta.dir, "../../src/main.ts")] as const;

/** Runs a command of the shell, in which `claviger` is the program. */
function shell(command: string) {
  const [bun, main] = PROGRAM;
  const script = `claviger() { "${bun}" "${main}" "$@"; }; ${command}`;
  const { status, stderr } = spawnSync("bash", ["-o", "pipefail", "-c", script], { encoding: "utf8" });
  return { status, stderr };
}

test("a command fails if its output was not written", () => {
  for (const command of ["version", "version --json", "guide commands"]) {
    expect(shell(`claviger ${command} > /dev/full`)).toEqual({
      status: 1,
      stderr: expect.stringMatching(/^claviger: Cannot print the whole result: the disk is full; [^\n]+\n$/),
    });
  }
});

test("a command succeeds if the reader of its output has read enough", () => {
  expect(shell("claviger guide commands | head -n 1 > /dev/null")).toEqual({ status: 0, stderr: "" });
});

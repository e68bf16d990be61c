import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { type ChildProcess, spawn } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../src/clock.ts";
import { stopLeftovers } from "../../src/database/embedded/mod.ts";
import { testFolder } from "../support/postgres.ts";
import { isRunning } from "./embedded_test_kit.ts";

setDefaultTimeout(30_000);

describe("stopLeftovers()", () => {
  test("first sends SIGQUIT to a process that enters the cluster during its search", async () => {
    const folder = mkdtempSync(join(testFolder(), "leftovers-"));
    const cluster = join(folder, "cluster");
    mkdirSync(cluster);
    const program = join(folder, "postgres-that-comes");
    copyFileSync("/bin/sh", program);
    const sign = join(folder, "sign");
    // The process waits for the file, counts for a while, and enters the cluster's folder: later in every round.
    const script = `echo; until [ -e ${sign} ]; do :; done
      i=0; until [ "$i" -eq "$1" ]; do i=$((i+1)); done; cd ${cluster}; read word`;
    const ends = new Set<NodeJS.Signals | null>();
    let child: ChildProcess | undefined;
    try {
      for (let round = 0; round < 100; round += 1) {
        const coming = spawn(program, ["-c", script, "sh", String(round * 20)], { cwd: "/" });
        child = coming;
        const ended = new Promise((resolve) => coming.once("exit", resolve));
        await new Promise((resolve) => coming.stdout.once("data", resolve));
        writeFileSync(sign, "");
        while (isRunning(coming.pid ?? 0)) {
          await stopLeftovers({ cluster, clock: systemClock, graceMs: 0 });
          await Bun.sleep(1);
        }
        await ended;
        ends.add(coming.signalCode);
        rmSync(sign);
      }
    } finally {
      child?.kill("SIGKILL");
      rmSync(folder, { recursive: true, force: true });
    }
    expect([...ends]).toEqual(["SIGQUIT"]);
  });
});

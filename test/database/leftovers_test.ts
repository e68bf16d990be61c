import { afterEach, describe, expect, test } from "bun:test";
import { type ChildProcess, spawn } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { stopLeftovers } from "../../src/database/embedded/mod.ts";
import { until } from "../support/until.ts";
import { useFolder } from "../support/use_folder.ts";
import {
  cleanUp,
  holdSession,
  isRunning,
  makeDataFolder,
  openElsewhere,
  query,
  start,
} from "./embedded_test_kit.ts";

const folder = useFolder();
const cluster = join(folder, "cluster");
mkdirSync(cluster);
afterEach(cleanUp);

describe("stopLeftovers()", () => {
  test("first sends SIGQUIT to a process that enters the cluster during its search", async () => {
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
    }
    expect([...ends]).toEqual(["SIGQUIT"]);
  });

  test("stops a process that an emulator runs: only its name is PostgreSQL's, its program is the emulator", async () => {
    const name = join(folder, "postgres");
    symlinkSync("/bin/sleep", name);
    const emulated = spawn(name, ["60"], { cwd: cluster, stdio: "ignore" });
    const other = spawn("/bin/sleep", ["60"], { cwd: cluster, stdio: "ignore" });
    try {
      const ended = new Promise((resolve) => emulated.once("exit", (_, signal) => resolve(signal)));
      expect(await stopLeftovers({ cluster, clock: systemClock, graceMs: 0 })).toBe(1);
      expect(await ended).toBe("SIGQUIT");
      expect(isRunning(other.pid ?? 0)).toBe(true);
    } finally {
      emulated.kill("SIGKILL");
      other.kill("SIGKILL");
    }
  });

  test("waits for a killed session that still gives back its memory", async () => {
    const folder = makeDataFolder();
    const service = await openElsewhere(folder, "serve");
    const { address } = await start(folder, { holder: "command" });
    // So much memory takes the kernel longer than the search for processes.
    const large = "do $$ declare held text := repeat('x', 100000000); begin perform pg_sleep(60); end $$";
    await holdSession(address, large);
    const session = await until(async () => {
      const asleep = "select pid from pg_stat_activity where wait_event = 'PgSleep'";
      return (await query(address, asleep))[0]?.pid;
    });
    await service.kill("SIGKILL");
    const cluster = join(folder, "postgres");
    const block = /^ *\d+ +(\d+)$/m.exec(readFileSync(join(cluster, "postmaster.pid"), "utf8"))?.[1];
    expect(countAttached(block)).toBeGreaterThan(0);

    for (const pid of [service.postgresPid, session]) process.kill(Number(pid), "SIGKILL");
    await stopLeftovers({ cluster, clock: systemClock, graceMs: 0 });
    expect(countAttached(block)).toBe(0);
  });
});

/** Returns how many processes use a block of shared memory, which PostgreSQL counts before it starts. */
function countAttached(block: string | undefined): number {
  const [titles = [], ...blocks] = readFileSync("/proc/sysvipc/shm", "utf8")
    .split("\n")
    .map((line) => line.trim().split(/ +/));
  const found = blocks.find((values) => values[titles.indexOf("shmid")] === block);
  return Number(found?.[titles.indexOf("nattch")] ?? 0);
}

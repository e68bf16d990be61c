/**
 * Kills first starts and restores at random moments. What `serve` finds afterwards is either a service that is as it
 * should be, or it refuses: never an empty service after a restore.
 */
import { expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type CommandLine, createCommandLine } from "./command_line.ts";
import { useCommandLine } from "./use_command_line.ts";

// Takes over a minute.

const ROOT = join(import.meta.dir, "../..");
const line = useCommandLine({ prepared: true });
const backup = join(line.folder, "saved.tar.zst");

/** Runs a command in a process of its own, and kills it after a time; returns whether it had ended by itself. */
async function runAndKill(at: CommandLine, args: readonly string[], afterMs: number): Promise<boolean> {
  const place = ["--data-dir", at.dataDir, "--env-file", "/dev/null"];
  const child = spawn(process.execPath, ["src/main.ts", ...args, ...place], {
    cwd: ROOT,
    env: { PATH: "/usr/bin:/bin", CLAVIGER_PORT: "0" },
    stdio: "ignore",
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const isOver = await Promise.race([ended.then(() => true), sleep(afterMs).then(() => false)]);
  child.kill("SIGKILL");
  await ended;
  return isOver;
}

/** How long the command takes if nobody kills it, or until a service has made its secret. */
const MOMENTS = 24;

test("a first start that is killed at any moment goes on at the next start", async () => {
  for (let moment = 0; moment < MOMENTS; moment++) {
    using fresh = createCommandLine();
    // A first start takes 1 to 3 s from its sources.
    await runAndKill(fresh, ["serve"], 200 + Math.random() * 3_000);
    const service = await fresh.serve();
    expect((await fetch(`${service.url}/api/health`)).status).toBe(200);
    expect(await fresh.here(["keys", "issue", "--email", "ada@example.org", "--tier", "free"])).toMatchObject(
      {
        status: 0,
      },
    );
    await service.stop();
    expect(
      readdirSync(fresh.dataDir)
        .filter((name) => !name.startsWith("postgres"))
        .sort(),
    ).toEqual(["installation", "lock", "secret"]);
  }
});

test("a restore that is killed at any moment is refused until it is repeated, or is whole", async () => {
  await (await line.serve()).stop();
  await line.json(["keys", "issue", "--email", "ada@example.org", "--tier", "free"]);
  await line.json(["backup", backup, "--with-secret"]);
  const outcomes = { refused: 0, whole: 0, untouched: 0 };
  for (let moment = 0; moment < MOMENTS; moment++) {
    using lost = createCommandLine({ prepared: moment % 3 === 0 });
    const hadNothing = moment % 3 !== 0;
    await runAndKill(lost, ["restore", backup], 200 + Math.random() * 3_500);
    const names = await Array.fromAsync(new Bun.Glob("*").scan({ cwd: lost.folder, onlyFiles: false }));
    const found = names.includes("data") ? readdirSync(lost.dataDir) : [];
    const ended = await lost.here(["serve", "--port", "0"], { signal: "SIGTERM" });
    if (ended.status === 78) {
      outcomes.refused++;
      expect(ended.err).toContain("a restore into it has begun and has not ended");
      expect(await lost.here(["restore", backup])).toMatchObject({ status: 0 });
      expect(await lost.json(["keys", "list"])).toHaveLength(1);
    } else if (found.includes("restoring")) {
      throw new Error(`Served in a folder with half a restore: ${JSON.stringify(ended)}`);
    } else if ((await lost.json(["keys", "list"])).length === 1) {
      outcomes.whole++;
    } else {
      // Killed before it had changed anything.
      outcomes.untouched++;
      if (hadNothing) expect(found.filter((name) => name === "postgres")).toEqual([]);
    }
  }
  expect(outcomes.refused).toBeGreaterThan(0);
  console.log(JSON.stringify(outcomes));
});

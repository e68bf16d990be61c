/** What clients, keys, usage and figures need works on the oldest PostgreSQL that Claviger takes, too. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { asOrdinaryUser, POSTGRES_15_BIN } from "../support/postgres_15.ts";

// Takes over a minute.

// Runs alone: it runs several files of the suite at once.

const isInstalled = existsSync(join(POSTGRES_15_BIN, "initdb"));
if (!isInstalled) console.warn("No PostgreSQL 15 on this machine: the tests are not tried with it");

const ROOT = join(import.meta.dir, "../..");
const FILES = [
  "test/clients/",
  "test/licensing/keys/",
  "test/usage/",
  "test/usage/figures/",
  "test/clients/shared_windows/",
];
const folder = mkdtempSync(join(tmpdir(), "claviger-postgres-15-"));
const data = join(folder, "data");

/** Runs a program of the server, for root as another user, because PostgreSQL refuses root. */
function run(program: string, args: readonly string[]): void {
  const [name = "", ...rest] = [...asOrdinaryUser(), join(POSTGRES_15_BIN, program), ...args];
  const { status, stderr } = spawnSync(name, rest, {
    ...{ cwd: folder, encoding: "utf8", stdio: ["ignore", "ignore", "pipe"] },
    env: { PATH: "/usr/bin:/bin", LC_ALL: "C", TZ: "UTC" },
  });
  if (status !== 0) throw new Error(`${program} ended with ${status}: ${stderr}`);
}

beforeAll(() => {
  chmodSync(folder, 0o777);
  if (!isInstalled) return;
  run("initdb", ["-D", data, "-U", "claviger", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"]);
  const settings = `-c listen_addresses= -c unix_socket_directories=${folder} -c fsync=off -c max_connections=200`;
  run("pg_ctl", ["-D", data, "-o", settings, "-l", join(folder, "log"), "-w", "start"]);
});
afterAll(() => {
  if (isInstalled) run("pg_ctl", ["-D", data, "-m", "immediate", "-w", "stop"]);
  rmSync(folder, { recursive: true });
});

test.skipIf(!isInstalled)(
  "The tests of HTTP, keys, usage, figures and shared windows pass on PostgreSQL 15",
  async () => {
    const url = `postgres://claviger@${encodeURIComponent(folder)}/postgres`;
    const child = Bun.spawn([process.execPath, "test/support/run_suite.ts", ...FILES], {
      ...{ cwd: ROOT, env: { ...process.env, TEST_DATABASE_URL: url } },
      ...{ stdout: "pipe", stderr: "pipe" },
    });
    const [, log] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    const lines = log.split("\n");
    console.log(lines.filter((line) => /^ *\d+ (pass|fail|skip)$/.test(line)).join(","));
    expect(lines.filter((line) => line.startsWith("(fail)"))).toEqual([]);
    expect(await child.exited).toBe(0);
  },
);

/** A kubelet gives a volume to the group of the pod (`fsGroup`), and opens every folder and file in it to that group. */
import { afterEach, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Log, silentLog } from "../../src/base/log.ts";
import { cleanUp, makeDataFolder, query, start } from "./embedded_test_kit.ts";

afterEach(cleanUp);

test("openEmbedded() closes a cluster that was opened to a group, and says so once", async () => {
  const folder = makeDataFolder();
  const cluster = join(folder, "postgres");
  for (const [type, mode] of [
    ["d", "g+rwxs"],
    ["f", "g+rw"],
  ] as const)
    expect(spawnSync("find", [cluster, "-type", type, "-exec", "chmod", mode, "{}", "+"]).status).toBe(0);
  const warnings: string[] = [];
  const log: Log = { ...silentLog, warn: (text) => warnings.push(text) };
  const server = await start(folder, { log });
  expect(await query(server.address, "select 1 as one")).toEqual([{ one: 1 }]);
  expect(statSync(cluster).mode & 0o777).toBe(0o700);
  await server.stop(3000);
  await (await start(folder, { log })).stop(3000);
  expect(warnings).toEqual(["The folder of the database was closed: other users could change it"]);
});

test("openEmbedded() unpacks the programs of PostgreSQL anew if a group could change them, and says so once", async () => {
  const folder = makeDataFolder();
  const warnings: string[] = [];
  const log: Log = { ...silentLog, warn: (text) => warnings.push(text) };
  const startAndStop = async () => await (await start(folder, { log, ownBinaries: true })).stop(3000);
  await startAndStop();
  const [name = ""] = readdirSync(folder).filter((each) => each.startsWith("postgres-"));
  const initdb = join(folder, name, "bin/initdb");
  // Only one file is open, and somebody has changed it.
  writeFileSync(initdb, "changed");
  chmodSync(initdb, 0o775);
  await startAndStop();
  expect(readFileSync(initdb).length).toBeGreaterThan(10_000);
  expect(statSync(initdb).mode & 0o777).toBe(0o755);
  await startAndStop();
  expect(warnings).toEqual(["The programs of PostgreSQL were unpacked anew: other users could change them"]);
});

test("openEmbedded() leaves a cluster alone whose group may only read it, as PostgreSQL allows", async () => {
  const folder = makeDataFolder();
  const cluster = join(folder, "postgres");
  chmodSync(cluster, 0o750);
  await start(folder);
  expect(statSync(cluster).mode & 0o777).toBe(0o750);
});

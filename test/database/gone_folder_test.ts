/** The folder of a running PostgreSQL goes away, or its data is found to be damaged. */
import { afterEach, expect, test } from "bun:test";
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { type Log, silentLog } from "../../src/base/log.ts";
import { DatabaseUnavailable } from "../../src/database/mod.ts";
import { until } from "../support/until.ts";
import { cleanUp, isRunning, makeDataFolder, query, start } from "./embedded_test_kit.ts";

afterEach(cleanUp);

/** A server whose clock the test moves, and what its log has as errors. */
async function startWatched() {
  const folder = makeDataFolder();
  const cluster = join(folder, "postgres");
  const errors: string[] = [];
  const log: Log = { ...silentLog, error: (text) => errors.push(text) };
  let shiftMs = 0;
  const clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + shiftMs };
  const server = await start(folder, { log, clock });
  return {
    folder,
    cluster,
    errors,
    server,
    pid: server.pid() ?? 0,
    advance(ms: number) {
      shiftMs += ms;
    },
    isGone: () => server.dataFault.sentence() === "The folder of the database is gone",
  };
}

const GONE = "The folder of the database went away: no request is answered, and the service ends in a minute";

test("A folder that comes back within a minute is used again; until then no PostgreSQL runs in it", async () => {
  const { cluster, errors, server, pid, isGone, advance } = await startWatched();
  await query(server.address, "create table kept as select 1 as one");
  renameSync(cluster, `${cluster}.away`);
  await until(isGone);
  await until(() => !isRunning(pid));
  // Not a minute less a second: a busy machine may need many seconds to look.
  advance(40_000);
  await Bun.sleep(500);
  renameSync(`${cluster}.away`, cluster);
  await until(() => server.pid() !== undefined && !isGone());
  expect(await query(server.address, "select one from kept")).toEqual([{ one: 1 }]);
  expect(server.dataFault.sentence()).toBeUndefined();
  expect(errors).toEqual([GONE]);
});

test("A folder that does not come back within a minute ends the service, and is said once", async () => {
  const { folder, cluster, errors, server, pid, isGone, advance } = await startWatched();
  rmSync(folder, { recursive: true });
  await until(isGone);
  await until(() => !isRunning(pid));
  advance(60_000);
  expect(await server.dataFault.ending).toMatchObject({
    code: "DATA_LOST",
    sentence: expect.stringContaining(
      `Cannot go on: ${cluster} went away while the service ran, and did not`,
    ),
  });
  // What PostgreSQL says of its end depends on what it was doing.
  expect(errors.filter((text) => !text.startsWith("PostgreSQL: "))).toEqual([GONE]);
  await server.stop(1000);
});

test("Another folder in place of the one that went away ends the service, so that a new start examines it", async () => {
  const { cluster, server, pid } = await startWatched();
  renameSync(cluster, `${cluster}.away`);
  mkdirSync(cluster);
  writeFileSync(join(cluster, "PG_VERSION"), "18\n");
  expect(await server.dataFault.ending).toMatchObject({
    code: "SERVICE_UNAVAILABLE",
    sentence: expect.stringContaining("another folder has its place now; start the service again"),
  });
  expect(isRunning(pid)).toBe(false);
});

test("A stop leaves no PostgreSQL running though its folder has just gone", async () => {
  const { folder, server, pid } = await startWatched();
  rmSync(folder, { recursive: true });
  await server.stop(1000);
  await until(() => !isRunning(pid));
});

test("Data that is damaged when PostgreSQL is started again ends the service", async () => {
  const { cluster, errors, server, pid } = await startWatched();
  const control = join(cluster, "global/pg_control");
  writeFileSync(
    control,
    readFileSync(control).map((_, at) => (at * 7919 + 13) % 256),
  );
  process.kill(pid, "SIGKILL");
  expect(await server.dataFault.ending).toMatchObject({
    code: "DATA_LOST",
    sentence: expect.stringContaining(
      "its data is damaged: PostgreSQL said: FATAL: database files are incompatible",
    ),
  });
  expect(errors.filter((text) => text.includes("is started again"))).toHaveLength(1);
});

test("A start that gets no answer waits for the last lines of the server, which may tell that the data is damaged", async () => {
  const folder = makeDataFolder();
  const made = await start(folder);
  await query(made.address, "create table counted as select 1 as one");
  const [row] = await query(made.address, "select pg_relation_filepath('counted') as path");
  await made.stop(5_000);
  const path = join(folder, "postgres", String(row?.path));
  writeFileSync(path, Buffer.alloc(8_192, 7));
  const { dataFault, address } = await start(folder);
  expect(await dataFault.damageAfter(new Error("something else"))).toBeUndefined();

  const found = dataFault.damageAfter(new DatabaseUnavailable("CONNECTION_CLOSED"));
  await query(address, "select * from counted").catch(() => {});

  expect(await found).toMatchObject({
    code: "DATA_LOST",
    sentence: expect.stringContaining("its data is damaged: PostgreSQL said: "),
  });
});

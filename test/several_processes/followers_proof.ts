/**
 * Followers of the audit log while services, followers and the database are killed at random, with a failover in the
 * middle. Each follower has every row once and in the order of the table, although it reads on from the last cursor that it
 * has stored. The failover makes its cursor expire, and then it begins with the first row.
 */
import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { createCommandLine } from "../cli/command_line.ts";
import { startFollower } from "../cli/follower.ts";
import { findFreePort } from "../support/find_free_port.ts";
import { type Replication, startReplication } from "../support/replication.ts";
import { TEST_SECRET } from "../support/secrets.ts";
import {
  limitSettings,
  type ServiceProcess,
  SOURCE,
  spawnService,
  toServeCommand,
} from "../support/service_process.ts";
import { until } from "../support/until.ts";
import { useFolder } from "../support/use_folder.ts";
import {
  commandOf,
  type Following,
  followByApi,
  followByCommand,
  LEFT_MS,
  pickMs,
  type Readings,
  startFollowing,
  writeRows,
} from "./followers_kit.ts";

// Takes over a minute.

/** How long the rows are written; ten minutes are 600. */
const SECONDS = Number(process.env.FOLLOWERS_SECONDS ?? 40);
const WRITERS = 4;
const FOLLOWERS = 3;
setDefaultTimeout(SECONDS * 1_000 + 2 * LEFT_MS + 120_000);

const folder = useFolder();
let replication: Replication;
let line: ReturnType<typeof createCommandLine>;
let services: ServiceProcess[];
let ending: AbortController;
/** Those who follow or write in the background. */
let background: Promise<void>[];
/** Both servers, as the setting `DATABASE_URL` names them. */
let url: string;
beforeEach(async () => {
  services = [];
  background = [];
  ending = new AbortController();
  line = createCommandLine();
  replication = await startReplication();
  const places = [replication.primary, replication.standby].map((server) => new URL(server.url).host);
  url = `postgres://claviger@${places.join(",")}/postgres`;
  await run(["migrate"]);
});
afterEach(async () => {
  ending.abort();
  await Promise.allSettled(background);
  for (const service of services) await service.end();
  replication?.close();
  line?.remove();
});

/** Runs a command on the database; returns its output. */
async function run(words: readonly string[]): Promise<string> {
  const env = { DATABASE_URL: url, CLAVIGER_SECRET: TEST_SECRET };
  const { status, out, err } = await line.run([...words, "--env-file", "/dev/null"], { env });
  expect({ status, err }).toMatchObject({ status: 0 });
  return out;
}

/** Starts a service that answers operators at that port. */
async function serve(port: number): Promise<ServiceProcess> {
  const env = {
    ...limitSettings(0),
    ...{
      DATABASE_URL: url,
      CLAVIGER_SECRET: TEST_SECRET,
      CLAVIGER_STOP_GRACE: "0",
      CLAVIGER_DATA_DIR: folder,
    },
    CLAVIGER_ADMIN_LISTEN: `127.0.0.1:${port}`,
  };
  const service = spawnService(toServeCommand(SOURCE, ["--port", "0"]), { cwd: folder, env });
  services.push(service);
  await service.untilServing();
  return service;
}

/** Lets the standby take the place of the primary, which has rows that the standby never gets. */
async function failOver(): Promise<void> {
  const { primary, standby } = replication;
  await replication.part();
  await Bun.sleep(2_000);
  primary.kill();
  await standby.run("select pg_promote()");
  await until(async () => {
    const [row] = await standby.run("select pg_is_in_recovery() as waits");
    return row?.waits === false;
  });
}

/** The unique ids of all rows of the new server, in the order that is promised. */
async function listIds(): Promise<string[]> {
  const rows = await replication.standby.run(
    "select 'aud_' || replace(unique_id::text, '-', '') as text from audit order by xid nulls first, id",
  );
  return rows.map(({ text }) => String(text));
}

test("Followers by command and by API have every row once and in order, through kills of all processes and a failover", async () => {
  const ports = [await findFreePort(), await findFreePort()];
  const serving = [await serve(ports[0] ?? 0), await serve(ports[1] ?? 0)];
  const words = ["tokens", "issue", "--name", "follower", "--scope", "audit:read", "--json"];
  const { token } = JSON.parse(await run(words));
  let isWritten = false;
  let last: string | undefined;
  const end = {
    isOver: () => last !== undefined,
    isLast: (id: string | undefined) => id === last,
    signal: ending.signal,
  };
  const commands = Array.from({ length: FOLLOWERS }, () =>
    startFollowing((following) => followByCommand(following, url, end)),
  );
  const api = startFollowing((following) => followByApi(following, { ports, token }, end));
  const followers: readonly Following[] = [...commands, api];
  const writing = Array.from({ length: WRITERS }, () =>
    writeRows(url, () => isWritten || ending.signal.aborted),
  );
  background.push(...writing, ...followers.map(({ ended }) => ended));
  const beganMs = performance.now();
  const seconds = () => (performance.now() - beganMs) / 1_000;
  let database = replication.primary;
  let crashes = 0;
  // On a busy machine a follower may be killed several times before its first row.
  const haveBegun = () => followers.every(({ readings }) => readings.some(({ length }) => length > 0));
  for (let turn = 0; seconds() < SECONDS || database === replication.primary; turn++) {
    await Bun.sleep(pickMs(2_000, 6_000));
    const index = turn % serving.length;
    await serving[index]?.stop("SIGKILL");
    if (database === replication.primary && seconds() > SECONDS / 2 && haveBegun()) {
      await failOver();
      database = replication.standby;
    } else {
      await database.crash();
      crashes++;
    }
    serving[index] = await serve(ports[index] ?? 0);
  }
  isWritten = true;
  await Promise.all(writing);
  const wanted = await listIds();
  last = wanted.at(-1);
  await Promise.all(followers.map(({ ended }) => ended));
  expect(wanted.length).toBeGreaterThan(SECONDS * 10);
  expect(crashes).toBeGreaterThan(0);
  for (const { readings } of followers) expectAll(readings, wanted);
  const kills = commands.map((follower) => follower.kills);
  expect(Math.min(...kills)).toBeGreaterThan(0);
  console.log(
    `${wanted.length} rows, ${crashes} crashes of PostgreSQL, ${services.length} services, ` +
      `${kills.join(", ")} kills of followers`,
  );
});

/** Before the failover: rows once, in order and without a gap, but for those that the new server lost. Then: every row. */
function expectAll(readings: Readings, wanted: readonly string[]): void {
  const [before = [], after] = readings;
  expect(readings).toHaveLength(2);
  expect(after).toEqual([...wanted]);
  expect(new Set(before).size).toBe(before.length);
  const kept = new Set(wanted);
  const left = before.filter((id) => kept.has(id));
  expect(left.length).toBeGreaterThan(0);
  expect(left).toEqual(wanted.slice(0, left.length));
}

test("After a failover the cursor has expired, and a follower that begins again has every row of the new server", async () => {
  const { primary, standby } = replication;
  const insert = (action: string) =>
    `insert into audit (at, actor, action) select now(), 'command:t', '${action}' from generate_series(1, 5)`;
  await primary.run(insert("test.kept"));
  await replication.catchUp();
  await replication.part();
  await primary.run(insert("test.lost"));
  const before = commandOf(url, "start");
  const follower = startFollower(before.command, before.env);
  const seen = await follower.untilSeen(() => follower.lines().length === 10, "ten rows");
  const lost = seen.filter(({ action }) => action === "test.lost").map(({ unique_id }) => unique_id);
  primary.kill();
  await follower.untilSaid("Waiting: ");
  await standby.run("select pg_promote()");
  expect(await follower.ended).toBe(4);
  expect(follower.lines()).toHaveLength(10);
  await until(async () => {
    const [row] = await standby.run("select pg_is_in_recovery() as waits");
    return row?.waits === false;
  });
  await standby.run(insert("test.new"));
  const anew = startFollower(before.command, before.env);
  await anew.untilSeen(() => anew.lines().length === 10, "ten rows");
  await anew.stop();
  const ids = anew.lines().map(({ unique_id }) => unique_id ?? "");
  expect(ids).toEqual(await listIds());
  expect(ids.slice(0, 5)).toEqual(seen.slice(0, 5).map(({ unique_id }) => unique_id ?? ""));
  expect(lost).toHaveLength(5);
  expect(ids.filter((id) => lost.includes(id))).toEqual([]);
});

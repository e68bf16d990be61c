/**
 * Followers of the audit log under kills: of services, of followers, and of the database. Each follower has every row once
 * and in the order of the table, although it is killed at random and reads on from the last cursor that it has stored.
 */
import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { openSession } from "../../src/database/mod.ts";
import { createCommandLine } from "../cli/command_line.ts";
import { type FollowedLine, startFollower } from "../cli/follower.ts";
import { type FaultyProxy, startFaultyProxy } from "../support/faulty_proxy.ts";
import { findFreePort } from "../support/find_free_port.ts";
import { type Replication, startReplication } from "../support/replication.ts";
import { TEST_SECRET } from "../support/secrets.ts";
import { SOURCE } from "../support/service_process.ts";
import { until } from "../support/until.ts";
import { createInstallation, type Installation, type Replica } from "./installation.ts";

// Takes over a minute.
// Runs alone: it judges a time.

/** How long the rows are written; ten minutes are 600. */
const SECONDS = Number(process.env.FOLLOWERS_SECONDS ?? 40);
const WRITERS = 4;
const FOLLOWERS = 3;
const LIMIT_MS = 120_000;
setDefaultTimeout(SECONDS * 1_000 + 400_000);

let installation: Installation;
let proxy: FaultyProxy;
let token: string;
beforeEach(async () => {
  installation = await createInstallation();
  proxy = await startFaultyProxy(installation.address);
});
afterEach(async () => {
  await proxy?.close();
  await installation?.close();
});

const pickMs = (least: number, most: number) => least + Math.random() * (most - least);

async function serve(port: number): Promise<Replica> {
  return await installation.serve({ CLAVIGER_ADMIN_LISTEN: `127.0.0.1:${port}` });
}

async function issueToken(): Promise<void> {
  const words = ["tokens", "issue", "--name", "follower", "--scope", "audit:read", "--json"];
  const { status, out, err } = await installation.run(words);
  expect({ status, err }).toEqual({ status: 0, err: "" });
  ({ token } = JSON.parse(out));
}

const commandOf = (url: string, after: string) => ({
  command: [...SOURCE, "audit", "--follow", "--json", "--after", after, "--env-file", "/dev/null"],
  env: { DATABASE_URL: url, CLAVIGER_SECRET: TEST_SECRET },
});

/** Keeps the rows of a follower that is killed again and again. */
async function followByCommand(isOver: () => boolean, hasAll: (ids: readonly number[]) => boolean) {
  const ids: number[] = [];
  let cursor = "start";
  let kills = 0;
  const endMs = () => performance.now() + LIMIT_MS;
  for (let limit = endMs(); performance.now() < limit; ) {
    const { command, env } = commandOf(proxy.address.url, cursor);
    const follower = startFollower(command, env);
    let accepted = 0;
    const accept = () => {
      for (const line of follower.lines().slice(accepted)) {
        accepted++;
        ids.push(line.id ?? 0);
        ({ cursor } = line);
      }
    };
    const killAt = performance.now() + pickMs(1_000, 9_000);
    while (performance.now() < killAt || isOver()) {
      await Bun.sleep(50);
      accept();
      if (isOver() && (hasAll(ids) || performance.now() > limit)) break;
    }
    await follower.stop("SIGKILL");
    // A line that was printed before the kill is accepted, too.
    accept();
    kills++;
    if (isOver() && hasAll(ids)) break;
    if (!isOver()) limit = endMs();
  }
  return { ids, kills };
}

/** Keeps the rows of a program that waits for them at services that are killed. */
async function followByApi(
  ports: readonly number[],
  isOver: () => boolean,
  hasAll: (ids: readonly number[]) => boolean,
) {
  const ids: number[] = [];
  let after = "";
  for (
    let turn = 0, limit = performance.now() + LIMIT_MS;
    performance.now() < limit && !hasAll(ids);
    turn++
  ) {
    if (!isOver()) limit = performance.now() + LIMIT_MS;
    try {
      const url = `http://127.0.0.1:${ports[turn % ports.length]}/admin/v1/audit?limit=100&wait=5${after}`;
      const headers = { authorization: `Bearer ${token}` };
      const answer = await fetch(url, { headers, signal: AbortSignal.timeout(20_000) });
      if (answer.status === 410) throw new Error("The cursor has expired");
      if (answer.status === 200) {
        const { data, next } = (await answer.json()) as { data: FollowedLine[]; next: string };
        ids.push(...data.map(({ id = 0 }) => id));
        after = `&after=${next}`;
        continue;
      }
    } catch (error) {
      if (String(error).includes("expired")) throw error;
    }
    await Bun.sleep(200);
  }
  return ids;
}

/** Writes rows in transactions of many lengths, of which some are rolled back, until the end. */
async function write(isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    const session = openSession(installation.address, { statementTimeoutMs: 10_000 });
    try {
      await session.connect();
      while (!isOver()) {
        await session.sql`begin`;
        for (let rows = pickMs(1, 8); rows > 0; rows--)
          await session.sql`insert into audit (at, actor, action) values (now(), 'command:t', 'test.row')`;
        await Bun.sleep(pickMs(0, 60));
        await (Math.random() < 0.1 ? session.sql`rollback` : session.sql`commit`);
      }
    } catch {
      // The server was killed.
      await Bun.sleep(100);
    } finally {
      await session.close().catch(() => {});
    }
  }
}

test("Followers by command and by API have every row once and in order, through kills of all processes", async () => {
  const ports = [await findFreePort(), await findFreePort()];
  const services = [await serve(ports[0] ?? 0), await serve(ports[1] ?? 0)];
  await issueToken();
  let isWritten = false;
  let wanted: number[] | undefined;
  const isOver = () => wanted !== undefined;
  const hasAll = (ids: readonly number[]) => wanted !== undefined && ids.length >= wanted.length;
  const commands = Array.from({ length: FOLLOWERS }, () => followByCommand(isOver, hasAll));
  const api = followByApi(ports, isOver, hasAll);
  const writing = Array.from({ length: WRITERS }, () => write(() => isWritten));
  const endMs = performance.now() + SECONDS * 1_000;
  let restarts = 0;
  for (let turn = 0; performance.now() < endMs; turn++) {
    await Bun.sleep(pickMs(2_000, 6_000));
    const index = turn % services.length;
    await services[index]?.kill("SIGKILL");
    if (turn % 2 === 0) {
      await installation.restart("SIGQUIT");
      restarts++;
    }
    services[index] = await serve(ports[index] ?? 0);
  }
  isWritten = true;
  await Promise.all(writing);
  const rows = await until(
    async () =>
      await installation.database
        .read<{ id: number }>((sql) => sql`select id from audit order by xid nulls first, id`)
        .catch(() => undefined),
  );
  wanted = rows.map(({ id }) => id);
  expect(wanted.length).toBeGreaterThan(SECONDS * 10);
  expect(restarts).toBeGreaterThan(0);
  const followed = await Promise.all(commands);
  for (const { ids, kills } of followed) {
    expect(ids).toEqual(wanted);
    expect(kills).toBeGreaterThan(2);
  }
  expect(await api).toEqual(wanted);
});

test("100 programs that wait cost the clients nothing", async () => {
  const port = await findFreePort();
  const service = await serve(port);
  const many: string[] = [];
  for (let index = 0; index < 5; index++) {
    const words = ["tokens", "issue", "--name", `waiter-${index}`, "--scope", "audit:read", "--json"];
    many.push(JSON.parse((await installation.run(words)).out).token);
  }
  const issued = await installation.run([
    "keys",
    "issue",
    "--email",
    "a@example.org",
    "--tier",
    "research",
    "--json",
  ]);
  const key = JSON.parse(issued.out).api_key;
  const validate = async () => {
    const beganMs = performance.now();
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        for (let sent = 0; sent < 250; sent++)
          expect((await service.post("/v1/auth/validate", { api_key: key })).status).toBe(200);
      }),
    );
    return performance.now() - beganMs;
  };
  const url = `http://127.0.0.1:${port}/admin/v1/audit?limit=100`;
  const waitWhile = async (work: () => Promise<number>) => {
    let isOver = false;
    let answers = 0;
    const ends = new AbortController();
    const waiters = Array.from({ length: 100 }, async (_, index) => {
      const headers = { authorization: `Bearer ${many[index % many.length]}` };
      let after = "";
      while (!isOver) {
        const answer = await fetch(`${url}&wait=20${after}`, { headers, signal: ends.signal }).catch(
          () => undefined,
        );
        if (answer?.status === 200) {
          answers++;
          after = `&after=${((await answer.json()) as { next: string }).next}`;
        } else if (!isOver) await Bun.sleep(500);
      }
    });
    // All have read what there is, and wait.
    await until(() => answers >= 100);
    await Bun.sleep(1_500);
    const ms = await work();
    isOver = true;
    ends.abort();
    await Promise.all(waiters);
    return ms;
  };
  await validate();
  const times: Record<"alone" | "beside", number[]> = { alone: [], beside: [] };
  for (let round = 0; round < 5; round++) {
    times.alone.push(await validate());
    times.beside.push(await waitWhile(validate));
  }
  const ratio = Math.min(...times.beside) / Math.min(...times.alone);
  console.log(`Beside 100 programs that wait: ${ratio.toFixed(2)} times as long`);
  expect(ratio).toBeLessThan(1.2);
});

test("After a failover the cursor has expired, and a follower that begins again has every row of the new server", async () => {
  const replication: Replication = await startReplication();
  const line = createCommandLine();
  try {
    const { primary, standby } = replication;
    const places = [primary, standby].map(({ url }) => new URL(url).host).join(",");
    const url = `postgres://claviger@${places}/postgres`;
    const migrated = await line.run(["migrate", "--env-file", "/dev/null"], {
      env: { DATABASE_URL: url, CLAVIGER_SECRET: TEST_SECRET },
    });
    expect(migrated).toMatchObject({ status: 0 });
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
    const rows = await standby.run(
      "select 'aud_' || replace(unique_id::text, '-', '') as text from audit order by xid nulls first, id",
    );
    const ids = anew.lines().map(({ unique_id }) => unique_id);
    expect(ids).toEqual(rows.map(({ text }) => String(text)));
    expect(ids.slice(0, 5)).toEqual(seen.slice(0, 5).map(({ unique_id }) => unique_id));
    expect(lost).toHaveLength(5);
    expect(ids.filter((id) => lost.includes(id))).toEqual([]);
  } finally {
    replication.close();
    line.remove();
  }
});

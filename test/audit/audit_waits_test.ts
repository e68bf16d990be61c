/** Readers of the audit log that wait: one statement for all of them, each woken by its own rows alone. */
import { afterEach, describe, expect, test } from "bun:test";
import { type AuditFilter, createAuditWaits, followAudit } from "../../src/audit/mod.ts";
import { type Log, silentLog } from "../../src/base/log.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { type Database, DatabaseUnavailable } from "../../src/database/mod.ts";
import { createTestDatabase } from "../support/database.ts";
import { NOW } from "../support/issue.ts";
import { until } from "../support/until.ts";
import { useTestDatabase } from "../support/use.ts";

const POLL_MS = 10;
const LONG_MS = 60_000;
const server = useTestDatabase();
const opened: ReturnType<typeof createAuditWaits>[] = [];
afterEach(() => {
  for (const waits of opened.splice(0)) waits.end();
});

function open(database: Database = server.database, log = silentLog) {
  const waits = createAuditWaits({ database, log, pollMs: POLL_MS });
  opened.push(waits);
  return waits;
}

/** Writes a row, and waits until a reader sees it: transactions of other tests delay it. Returns the position after it. */
async function write(action: string, { rows = 1, on = server.database } = {}): Promise<string> {
  const last = `${action}.last`;
  for (const [name, many] of [
    [action, rows - 1],
    [last, 1],
  ] as const)
    await on.query(
      (sql) => sql`
        insert into audit (at, actor, action)
        select ${NOW}::timestamptz, 'command:t', ${name}::text from generate_series(1, ${many}::integer)`,
    );
  return await until(async () => {
    const part = await followAudit(on, { limit: 1, filter: { action: last } });
    return !isRefusal(part) && part.rows.length > 0 && (await end(on));
  });
}

async function end(on = server.database): Promise<string> {
  const part = await followAudit(on, { limit: 1, filter: { action: "test.none" } });
  if (isRefusal(part)) throw new Error(part.sentence);
  return part.position;
}

/** Waits in the background; tells how the wait ended, or undefined. */
function start(
  waits: ReturnType<typeof createAuditWaits>,
  after: string,
  { sender = "a", waitMs = LONG_MS, ...filter }: AuditFilter & { sender?: string; waitMs?: number } = {},
) {
  const gone = new AbortController();
  const state: { hasNews: boolean | undefined } = { hasNews: undefined };
  const ended = waits.wait({ filter, after, waitMs, sender, signal: gone.signal }).then((hasNews) => {
    state.hasNews = hasNews;
    return hasNews;
  });
  return { state, ended, hangUp: () => gone.abort() };
}

describe("createAuditWaits()", () => {
  test("wakes those whose rows came, and no others", async () => {
    const waits = open();
    const after = await write("test.before");
    const all = start(waits, after);
    const own = start(waits, after, { action: "test.own" });
    const others = start(waits, after, { action: "test.other" });
    await write("test.own", { rows: 2 });
    expect(await Promise.all([all.ended, own.ended])).toEqual([true, true]);
    await write("test.third");
    expect(others.state.hasNews).toBeUndefined();
    await write("test.other", { rows: 2 });
    expect(await others.ended).toBe(true);
  });

  test("wakes nobody for rows that were read before", async () => {
    const waits = open();
    const early = start(waits, await write("test.before"), { action: "test.none" });
    const late = start(waits, await write("test.after"));
    await Bun.sleep(10 * POLL_MS);
    expect([early.state.hasNews, late.state.hasNews]).toEqual([undefined, undefined]);
  });

  test("wakes a reader whose row was settled before it began to wait", async () => {
    const after = await end();
    await write("test.early");
    expect(await start(open(), after).ended).toBe(true);
  });

  test("asks by one statement for all readers, and by none while nobody waits", async () => {
    const waits = open();
    const after = await write("test.quiet");
    const readers = Array.from({ length: 150 }, (_, index) =>
      start(waits, after, { sender: `sender ${index}`, action: `test.${index % 40}` }),
    );
    const before = server.database.stats().statements;
    const beganMs = performance.now();
    await Bun.sleep(20 * POLL_MS);
    const asked = server.database.stats().statements - before;
    expect(asked).toBeGreaterThan(0);
    expect(asked).toBeLessThanOrEqual((performance.now() - beganMs) / POLL_MS);
    for (const { hangUp } of readers) hangUp();
    expect(await Promise.all(readers.map(({ ended }) => ended))).toEqual(Array(150).fill(false));
    expect(waits.count()).toBe(0);
    await until(() => server.database.stats().running === 0);
    await Bun.sleep(3 * POLL_MS);
    const rest = server.database.stats().statements;
    await Bun.sleep(10 * POLL_MS);
    expect(server.database.stats().statements).toBe(rest);
  });

  test("lets 50 wait of one sender and 200 in all, and frees the place of one that has gone", async () => {
    const waits = open();
    const after = await write("test.crowd");
    const crowd = Array.from({ length: 200 }, (_, index) =>
      start(waits, after, { sender: `sender ${index % 4}` }),
    );
    expect(waits.count()).toBe(200);
    expect(await start(waits, after, { sender: "another" }).ended).toBe(false);
    crowd[0]?.hangUp();
    expect(await start(waits, after, { sender: "sender 1" }).ended).toBe(false);
    start(waits, after, { sender: "another" });
    expect(waits.count()).toBe(200);
  });

  test("ends a wait when its time is over, and all of them at the end", async () => {
    const waits = open();
    const after = await write("test.time");
    expect(await start(waits, after, { waitMs: 5 }).ended).toBe(false);
    const last = start(waits, after);
    waits.end();
    expect(await last.ended).toBe(false);
    expect(await start(waits, after).ended).toBe(false);
  });

  test("wakes everybody after so many rows that they are not examined, and when the database is another one", async () => {
    await using other = await createTestDatabase();
    const waits = open(other.database);
    const foreign = start(waits, await end());
    expect(await foreign.ended).toBe(true);
    const rare = start(waits, await write("test.start", { on: other.database }), { action: "test.rare" });
    await write("test.flood", { rows: 1_001, on: other.database });
    expect(await rare.ended).toBe(true);
  });

  test("waits behind the rows of an older program, too", async () => {
    await using other = await createTestDatabase();
    const old = (id: number) =>
      other.database.query(
        (sql) => sql`
          insert into audit (id, at, actor, action, xid) overriding system value
          values (${id}::bigint, now(), 'command:t', 'test.old', null)`,
      );
    await old(3);
    const waits = open(other.database);
    const reader = start(waits, await end(other.database));
    await Bun.sleep(5 * POLL_MS);
    expect(reader.state.hasNews).toBeUndefined();
    await old(4);
    expect(await reader.ended).toBe(true);
    const next = start(waits, await end(other.database));
    await write("test.new", { on: other.database });
    expect(await next.ended).toBe(true);
  });

  test("goes on while the database does not answer", async () => {
    let isLost = true;
    const read: Database["read"] = (...options) =>
      isLost ? Promise.reject(new DatabaseUnavailable("ECONNREFUSED")) : server.database.read(...options);
    const failing: Database = { ...server.database, read };
    const after = await end();
    const reader = start(open(failing), after);
    await write("test.lost");
    await Bun.sleep(5 * POLL_MS);
    expect(reader.state.hasNews).toBeUndefined();
    isLost = false;
    expect(await reader.ended).toBe(true);
  });

  test("logs an unexpected failure once for each reason until it has passed, without keys", async () => {
    const key = `svc_live_${"0123456789abcdef".repeat(4)}`;
    const reasons = [`no ${key}`, `no ${key}`, "another", "another"];
    let failures = 0;
    const read: Database["read"] = (...options) => {
      const reason = reasons[failures++ % 5];
      return reason === undefined ? server.database.read(...options) : Promise.reject(new Error(reason));
    };
    const logged: unknown[] = [];
    const log: Log = { ...silentLog, error: (_, fields) => logged.push(fields?.reason) };
    start(open({ ...server.database, read }, log), await end());
    await until(() => logged.length > 2);
    expect(logged.slice(0, 3)).toEqual(["Error: no [key]", "Error: another", "Error: no [key]"]);
  });
});

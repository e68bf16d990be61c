/**
 * A failover to a standby that lags behind, as operators see it. A reader of the audit log is told of the failover and
 * then misses no row. Tokens and sessions still work, and the use by day still equals the use of the licenses.
 */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { newUuid } from "../../../src/base/ids.ts";
import { silentLog } from "../../../src/base/log.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import {
  type Database,
  migrate,
  migrations,
  openDatabase,
  toDatabaseAddress,
} from "../../../src/database/mod.ts";
import type { IssuedKey } from "../../../src/licensing/keys/mod.ts";
import { findSession, loginOperator, redeemCode } from "../../../src/operators/mod.ts";
import { commitEvents, countUse, readUsageDays } from "../../../src/usage/mod.ts";
import { startAdmin, type TestAdmin } from "../../support/admin.ts";
import { createTestClock } from "../../support/clock.ts";
import { MUCH_ROOM, readSums, usageEvent } from "../../support/events.ts";
import { ACTOR } from "../../support/issue.ts";
import { type Replication, startReplication } from "../../support/replication.ts";
import { until } from "../../support/until.ts";

const clock = createTestClock("2026-11-20T12:00:00Z");
let replication: Replication;
let database: Database;
let admin: TestAdmin;
let key: IssuedKey;

beforeEach(async () => {
  replication = await startReplication();
  const [primary, standby] = [replication.primary, replication.standby].map(({ url }) => new URL(url).host);
  const address = toDatabaseAddress(`postgres://claviger@${primary},${standby}/postgres`);
  const migrated = await migrate(address, migrations);
  if (isRefusal(migrated)) throw new Error(migrated.sentence);
  database = openDatabase(address, { clock, log: silentLog, maxConnections: 2 });
  admin = await startAdmin({ on: { address, database, close: async () => {} }, clock });
  key = await admin.issue();
});
afterEach(async () => {
  await admin?.close();
  await database?.close();
  replication?.close();
});

/** Stores events, and adds them to their day when their minute is over. */
async function use(events: number): Promise<void> {
  const batch = Array.from({ length: events }, () =>
    usageEvent({ licenseUuid: key.licenseUuid, receivedAtMs: clock.nowMs() }),
  );
  await commitEvents(database, batch, { processUuid: newUuid(), textBounds: MUCH_ROOM, deadlineMs: 10_000 });
  clock.advance(120_000);
  await countUse(database, { clock, isStopping: () => false });
}

async function countedUse(): Promise<number | undefined> {
  const counted = await readUsageDays(database, { from: "2026-11-01", to: "2026-11-30" });
  return counted?.days.reduce((sum, { used }) => sum + used, 0);
}

interface AuditRow {
  readonly action: string;
  readonly reason: string | null;
}

/** Follows the audit log until a row has that reason. */
async function follow(reason: string, after?: string): Promise<{ rows: AuditRow[]; next: string }> {
  const rows: AuditRow[] = [];
  let next = after;
  await until(async () => {
    const { body } = await admin.call("GET", `/audit?limit=2${next === undefined ? "" : `&after=${next}`}`);
    rows.push(...body.data);
    next = body.next;
    return rows.some((row) => row.reason === reason);
  });
  return { rows, next: next ?? "" };
}

const change = async (what: "suspend" | "resume", reason: string) =>
  expect((await admin.call("POST", `/keys/${key.id}/${what}`, { body: { reason } })).status).toBe(200);

test("After a failover a follower of the audit log begins again, and all else goes on", async () => {
  const login = await loginOperator(
    database,
    { name: "olga", role: "admin" },
    { actor: ACTOR, now: clock.now() },
  );
  if (isRefusal(login)) throw new Error(login.sentence);
  const session = await redeemCode(database, login.code, {
    now: clock.now(),
    idleMinutes: 30,
    address: "127.0.0.1",
  });
  await use(5);
  await change("suspend", "before");
  const before = await follow("before");
  await replication.catchUp();
  await replication.part();
  // Lost: the standby never gets it.
  await use(3);
  await change("resume", "lost");
  const lost = await follow("lost", before.next);

  replication.primary.kill();
  await replication.standby.run("select pg_promote()");
  await until(async () => (await admin.call("GET", "/whoami")).status === 200);
  for (const after of [before.next, lost.next]) {
    expect(await admin.call("GET", `/audit?after=${after}`)).toMatchObject({
      status: 410,
      body: { code: "CURSOR_EXPIRED", error: expect.stringContaining("or a standby took its place") },
    });
  }
  expect(
    await findSession(database, session?.cookieValue ?? "", { now: clock.now(), extends: true }),
  ).toMatchObject({
    operator: "olga",
  });
  await change("resume", "after");
  const again = await follow("after");
  expect(again.rows.slice(0, before.rows.length)).toEqual(before.rows);
  expect(again.rows.slice(before.rows.length).map(({ reason }) => reason)).toEqual(["after"]);
  await change("suspend", "later");
  expect((await follow("later", again.next)).rows.map(({ reason }) => reason)).toEqual(["later"]);

  await use(4);
  expect({ ...(await readSums(database)), counted: await countedUse() }).toEqual({
    used: 9,
    byDay: 9,
    stored: 9,
    counted: 9,
  });
});

/**
 * Promise 2 through a failover. A key that was revoked on the new primary is refused, although the revocation has a
 * lower transaction number than the last transaction that the service saw on the old primary. A proxy stands between
 * the service and each server, so that a test decides when the service reaches the new primary.
 */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { systemClock } from "../../../src/base/clock.ts";
import { silentLog } from "../../../src/base/log.ts";
import {
  type Database,
  DatabaseUnavailable,
  openDatabase,
  openSession,
  toDatabaseAddress,
} from "../../../src/database/mod.ts";
import type { IssuedKey } from "../../../src/licensing/keys/mod.ts";
import { type FaultyProxy, startFaultyProxy } from "../../support/faulty_proxy.ts";
import { type ReplicatedServer, type Replication, startReplication } from "../../support/replication.ts";
import { startTestService, type TestService } from "../../support/service.ts";
import { until } from "../../support/until.ts";

// Runs alone: it judges a time.

/** The longest time from the promotion until an event is accepted again. */
const ACCEPTED_MS = 8_000;
const REFUSED_MS = 1_000;

let replication: Replication;
let proxies: FaultyProxy[];
let database: Database;
let service: TestService;
let kept: IssuedKey;
let revoked: IssuedKey;

beforeEach(async () => {
  replication = await startReplication();
  const { primary, standby } = replication;
  proxies = [await startFaultyProxy(primary), await startFaultyProxy(standby)];
  const places = proxies.map(({ address }) => new URL(address.url).host);
  const address = toDatabaseAddress(`postgres://claviger@${places.join(",")}/postgres`);
  database = openDatabase(address, { clock: systemClock, log: silentLog, maxConnections: 2 });
  service = await startTestService({ on: { address, database, close: async () => {} } });
  [kept, revoked] = [await service.issue(), await service.issue()];
});
afterEach(async () => {
  await service?.close();
  await database?.close();
  for (const proxy of proxies ?? []) await proxy.close();
  replication?.close();
});

const validate = ({ apiKey }: IssuedKey) => service.post("/v1/auth/validate", { api_key: apiKey });
const log = () => service.post("/v1/analytics/log", { api_key: kept.apiKey, event_type: "inference" });

async function nextXid(server: ReplicatedServer): Promise<number> {
  const [row] = await server.run("select pg_snapshot_xmax(pg_current_snapshot())::text as xid");
  return Number(row?.xid);
}

/** Uses up transaction numbers without a lasting change. */
async function burnXids(server: ReplicatedServer, count: number): Promise<void> {
  await server.run(`do $$ begin
    for i in 1..${count} loop perform pg_current_xact_id(); rollback; end loop;
  end $$`);
}

/** Fills the cache with both keys, and waits until the pulse has seen every transaction so far. */
async function warmUp(): Promise<void> {
  await untilPulsed();
  for (const key of [kept, revoked]) expect((await validate(key)).status).toBe(200);
  await untilPulsed();
  expect(service.service.directory.stats().keys).toBe(2);
}

/** Waits for a whole pulse that begins after this call. */
async function untilPulsed(): Promise<void> {
  const { beats } = service.service.directory.stats();
  await until(() => service.service.directory.stats().beats > beats + 1);
}

/** Revokes the key in SQL with a lower transaction number than `lastSeen`, then uses up numbers beyond `lastSeen`. */
async function revokeBehind(server: ReplicatedServer, lastSeen: number): Promise<void> {
  expect(await nextXid(server)).toBeLessThan(lastSeen);
  const [row] = await server.run(
    `update keys set state = 'revoked', revoked_at = now() where license_id = '${revoked.licenseUuid}'
     returning changed_xid::text as xid`,
  );
  expect(Number(row?.xid)).toBeLessThan(lastSeen);
  await burnXids(server, lastSeen - Number(row?.xid) + 10);
}

/** Expects that the revoked key is never accepted; returns the time at which the first event was accepted. */
async function proveRefused(): Promise<number> {
  const beganMs = performance.now();
  let reachedMs = Number.POSITIVE_INFINITY;
  let acceptedMs = Number.POSITIVE_INFINITY;
  while (performance.now() < Math.min(reachedMs + 2 * REFUSED_MS, beganMs + 10_000)) {
    const [{ status }, event] = await Promise.all([validate(revoked), log()]);
    const nowMs = performance.now();
    if (status !== 503) reachedMs = Math.min(reachedMs, nowMs);
    if (event.status === 202) acceptedMs = Math.min(acceptedMs, nowMs);
    expect([401, 503]).toContain(status);
    await Bun.sleep(10);
  }
  expect((await validate(revoked)).status).toBe(401);
  expect((await validate(kept)).status).toBe(200);
  return acceptedMs;
}

test("A key that was revoked on a promoted standby is refused, and events are accepted again", async () => {
  const { primary, standby } = replication;
  await replication.catchUp();
  await replication.part();
  await burnXids(primary, 500);
  await warmUp();
  const lastSeen = await nextXid(primary);

  proxies[1]?.set("closing");
  primary.kill();
  await standby.run("select pg_promote()");
  const promotedMs = performance.now();
  await revokeBehind(standby, lastSeen);
  // The cache from before the failover is trusted for one second, and not after it.
  await until(async () => (await validate(revoked)).status === 503);
  proxies[1]?.set("none");

  expect((await proveRefused()) - promotedMs).toBeLessThan(ACCEPTED_MS);
});

test("After a failover no event goes to the old primary, even after it answers again", async () => {
  const { primary, standby } = replication;
  await warmUp();
  expect((await log()).status).toBe(202);
  await replication.catchUp();
  await replication.part();
  // Send no request until the end of the failover, so that idle connections to the old primary stay idle.
  proxies[0]?.set("stalled");
  await standby.run("select pg_promote()");
  const promotedMs = performance.now();
  await until(() => service.logLines.some((line) => line.includes("another server than before")));
  expect(performance.now() - promotedMs).toBeLessThan(ACCEPTED_MS);
  proxies[0]?.set("none");

  for (let event = 0; event < 10; event++) expect((await log()).status).toBe(202);

  const stored = "select count(*)::integer as events from events";
  expect(await primary.run(stored)).toMatchObject([{ events: 1 }]);
  expect(await standby.run(stored)).toMatchObject([{ events: 11 }]);
});

test("A key that was revoked after a crash of PostgreSQL is refused", async () => {
  const { primary } = replication;
  const startedAt = async () => (await primary.run("select pg_postmaster_start_time()::text as at"))[0]?.at;
  const started = await startedAt();
  let lastSeen: number;
  do {
    proxies[0]?.set("none");
    await burnXids(primary, 500);
    await warmUp();
    lastSeen = await nextXid(primary);
    proxies[0]?.set("closing");
    await primary.crash();
    // If the service committed something meanwhile, the numbers are on the disk and survive the crash: try again.
  } while ((await nextXid(primary)) >= lastSeen);
  expect(await startedAt()).toBe(started);
  await revokeBehind(primary, lastSeen);
  await until(async () => (await validate(revoked)).status === 503);
  proxies[0]?.set("none");

  await proveRefused();
});

test("A connection to several servers uses the primary, whatever their order", async () => {
  const hosts = [replication.standby, replication.primary].map(({ url }) => new URL(url).host);
  const session = (address: string) =>
    openSession({ url: `postgres://claviger@${address}/postgres` }, { statementTimeoutMs: 1_000 });
  const both = session(hosts.join(","));
  await both.connect();
  expect([...(await both.sql`select pg_is_in_recovery() as standby`)]).toEqual([{ standby: false }]);
  await both.close();
  const alone = session(hosts[0] ?? "");
  const failure = await alone.connect().catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(DatabaseUnavailable);
  expect(failure).toMatchObject({ code: "NOT_PRIMARY" });
  await alone.close();
});

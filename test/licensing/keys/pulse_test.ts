/** How a service with a warm cache reads changes that other processes made. */

import { describe, expect, test } from "bun:test";
import { systemClock } from "../../../src/base/clock.ts";
import { newUuid } from "../../../src/base/ids.ts";
import { silentLog } from "../../../src/base/log.ts";
import { openDatabase, type Sql } from "../../../src/database/mod.ts";
import { findKeysByHash } from "../../../src/licensing/keys/find_keys.ts";
import { parseKeyHash } from "../../../src/licensing/keys/key_hash.ts";
import { hashApiKey, type IssuedKey, revokeKey } from "../../../src/licensing/keys/mod.ts";
import { createLicenseChanges } from "../../../src/licensing/mod.ts";
import { createTestClock } from "../../support/clock.ts";
import { inTransaction } from "../../support/in_transaction.ts";
import { createLonePulse } from "../../support/lone_pulse.ts";
import { startTestService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { useTestService } from "../../support/use.ts";

const WITHIN_MS = 1_000;

const service = useTestService();

const hashOf = (key: IssuedKey) => parseKeyHash(hashApiKey(key.apiKey));
const validate = (key: IssuedKey) => service.post("/v1/auth/validate", { api_key: key.apiKey });

async function issueWarm(): Promise<IssuedKey> {
  const key = await service.issue({ monthlyLimit: 100 });
  // The pulse may drop a new key once more, because its license has just changed.
  await until(async () => {
    expect((await validate(key)).status).toBe(200);
    return service.service.directory.get(hashOf(key)) !== undefined;
  });
  return key;
}

/**
 * Validates the key until the answer is as expected. Returns when the last answer of before began, in ms from now. A 503
 * is none: on a busy machine the pulse may be late, and then the service does not trust its cache.
 */
async function timeUntil(key: IssuedKey, expected: object): Promise<number> {
  const beganMs = performance.now();
  let lastOldMs = 0;
  await until(async () => {
    const askedMs = performance.now() - beganMs;
    const { status, body } = await validate(key);
    if (isLike({ status, ...body }, expected)) return true;
    if (status !== 503) lastOldMs = askedMs;
    return false;
  });
  return lastOldMs;
}

describe("createPulse()", () => {
  const byHand: [what: string, change: (sql: Sql, key: IssuedKey) => ReturnType<Sql>, expected: object][] = [
    [
      "a revoked key",
      (sql, { licenseUuid }) =>
        sql`update keys set state = 'revoked', revoked_at = now() where license_id = ${licenseUuid}::uuid`,
      { status: 401, code: "INVALID_KEY" },
    ],
    [
      "a suspended key",
      (sql, { licenseUuid }) =>
        sql`update keys set state = 'suspended' where license_id = ${licenseUuid}::uuid`,
      { status: 401, code: "INVALID_KEY" },
    ],
    [
      "a key's own end",
      (sql, { licenseUuid }) =>
        sql`update keys set own_expires_at = '2020-01-01' where license_id = ${licenseUuid}::uuid`,
      { status: 401, code: "KEY_EXPIRED" },
    ],
    [
      "a license's tier",
      (sql, { licenseUuid }) => sql`update licenses set tier = 'enterprise' where id = ${licenseUuid}::uuid`,
      { status: 200, license_type: "enterprise" },
    ],
    [
      "a license's limit",
      (sql, { licenseUuid }) => sql`update licenses set monthly_limit = 5 where id = ${licenseUuid}::uuid`,
      { status: 200, quota: { monthly_limit: 5 } },
    ],
    [
      "an account's name",
      (sql, { licenseUuid }) => sql`
        update accounts set name = 'Changed' from licenses l
         where l.id = ${licenseUuid}::uuid and accounts.id = l.account_id`,
      { status: 200, name: "Changed" },
    ],
  ];

  test.each(byHand)("createPulse() reads a change within a second: %s", async (_what, change, expected) => {
    const key = await issueWarm();
    await service.database.query((sql) => change(sql, key) as never);
    expect(await timeUntil(key, expected)).toBeLessThan(WITHIN_MS);
  });

  test("createPulse() reads that a key has moved to another license", async () => {
    const [from, to] = [await issueWarm(), await issueWarm()];
    await service.database.query(
      (sql) => sql`
        update keys set license_id = ${to.licenseUuid}::uuid where license_id = ${from.licenseUuid}::uuid`,
    );
    expect(await timeUntil(from, { status: 200, user_id: to.userId })).toBeLessThan(WITHIN_MS);
  });

  test("createPulse() does not miss a transaction that stays open for several pulses", async () => {
    const key = await issueWarm();
    await inTransaction(service.address, async (sql) => {
      await sql`update keys set state = 'suspended' where license_id = ${key.licenseUuid}::uuid`;
      for (let i = 0; i < 8; i++) {
        // Other transactions commit meanwhile, so that the open one falls far behind.
        await issueWarm();
        await service.service.directory.beat();
      }
      expect((await validate(key)).status).toBe(200);
    });
    expect(await timeUntil(key, { status: 401 })).toBeLessThan(WITHIN_MS);
  });

  test("createPulse() reads a change once, however long another transaction stays open", async () => {
    const key = await issueWarm();
    await inTransaction(service.address, async (sql) => {
      await sql`select pg_current_xact_id()`;
      await service.database.query(
        (own) => own`update licenses set monthly_limit = 50 where id = ${key.licenseUuid}::uuid`,
      );
      await service.service.directory.beat();
      await validate(key);
      await service.service.directory.beat();
      expect(service.service.directory.get(hashOf(key))).toBeDefined();
    });
  });

  test("createPulse() clears the cache when there are more changes than it reads", async () => {
    const key = await issueWarm();
    await service.database.query(
      (sql) => sql`
        with account as (
          insert into accounts (id, email, name, created_at)
          values (${newUuid()}::uuid, 'many@example.org', 'Many', now()) returning id
        )
        insert into licenses (id, account_id, tier, expires_at, created_at)
        select gen_random_uuid(), account.id, 'free', 'infinity', now()
          from account, generate_series(1, 2001)`,
    );
    await service.service.directory.beat();
    expect(service.service.directory.get(hashOf(key))).toBeUndefined();
    expect((await validate(key)).status).toBe(200);
    // A change to an account with that many licenses has the same effect.
    await service.database.query(
      (sql) => sql`update accounts set name = 'More' where email = 'many@example.org'`,
    );
    await service.service.directory.beat();
    expect(service.service.directory.get(hashOf(key))).toBeUndefined();
  });

  test("createPulse() misses no revocation when more keys changed than it reads, even of few licenses", async () => {
    const { database } = service;
    const beating = openDatabase(service.address, { clock: systemClock, log: silentLog, maxConnections: 1 });
    // Only this test runs the pulse, so that all changes below fall between two beats.
    const { cache, pulse } = createLonePulse(beating);
    const [key, many] = [await service.issue(), await service.issue()];
    const hash = hashApiKey(key.apiKey);
    await pulse.beat();
    const lookUp = cache.beginLookUp();
    lookUp.fill([hash], await findKeysByHash(database, [hash], systemClock.now().getTime()));
    lookUp.end();
    await pulse.beat();
    expect(cache.get(parseKeyHash(hash))).toBeDefined();

    await database.query(
      (sql) => sql`
        insert into keys (id, license_id, hash, hint, mode, created_at)
        select gen_random_uuid(), ${many.licenseUuid}::uuid, sha256(('few' || number)::bytea), '', 'live', now()
          from generate_series(1, 2001) as number`,
    );
    const actor = { kind: "command", name: "test" } as const;
    await revokeKey(createLicenseChanges(database), { hash }, { actor, now: systemClock.now() });
    await pulse.beat();

    expect(cache.get(parseKeyHash(hash))).toBeUndefined();
    await beating.close();
  });

  test("createPulse() clears the cache and the running look-ups when its connection was replaced", async () => {
    const { database } = service;
    const beating = openDatabase(service.address, { clock: systemClock, log: silentLog, maxConnections: 1 });
    const { cache, pulse } = createLonePulse(beating);
    const [kept, late] = [
      hashApiKey((await service.issue()).apiKey),
      hashApiKey((await service.issue()).apiKey),
    ];
    const unknown = "0".repeat(64);
    await pulse.beat();
    const found = await findKeysByHash(database, [kept, late], systemClock.now().getTime());
    const [lookUp, lateLookUp] = [cache.beginLookUp(), cache.beginLookUp()];
    lookUp.fill([kept, unknown], found);
    lookUp.end();
    await pulse.beat();
    expect([kept, unknown].map((hash) => cache.get(parseKeyHash(hash)))).toEqual([expect.anything(), null]);

    const [own] = await beating.query<{ pid: number }>((sql) => sql`select pg_backend_pid() as pid`);
    await database.query((sql) => sql`select pg_terminate_backend(${own?.pid ?? 0}::integer)`);
    await pulse.beat();
    lateLookUp.fill([late, unknown], found);
    lateLookUp.end();

    expect(cache.stats()).toMatchObject({ keys: 0, licenses: 0, unknownKeys: 0 });
    await beating.close();
  });

  test("createPulse() reads the counts of other processes within a second, and keeps the key cached", async () => {
    const key = await issueWarm();
    const other = await startTestService({ on: service.testDatabase });
    const event = { api_key: key.apiKey, event_type: "inference" };
    for (const used of [1, 2, 3]) {
      expect((await other.post("/v1/analytics/log", event)).body.quota).toEqual({
        used,
        remaining: 100 - used,
      });
    }
    expect(await timeUntil(key, { status: 200, quota: { used: 3, remaining: 97 } })).toBeLessThan(WITHIN_MS);
    await other.close();
  });

  test("createPulse() reads its own process's count that was committed after the statement's deadline", async () => {
    const key = await issueWarm();
    // The delay is at the commit, after the statement's own time limit, as on a slow disk.
    await service.database.query((sql) =>
      sql.unsafe(`
        do $$ begin
          create function wait() returns trigger language plpgsql as
            'begin perform pg_sleep(2.4); return null; end';
          create constraint trigger slow after insert on usage_changes deferrable initially deferred
            for each row execute function wait();
        end $$`),
    );
    const event = { api_key: key.apiKey, event_type: "inference" };
    expect(await service.post("/v1/analytics/log", event)).toMatchObject({ status: 503 });
    expect((await validate(key)).body).toMatchObject({ quota: { used: 0 } });
    expect(await timeUntil(key, { status: 200, quota: { used: 1 } })).toBeLessThan(2_000);
    await service.database.query((sql) => sql`drop function wait cascade`);
  });

  test("createPulse() reads a new key within a second, though it was cached as unknown", async () => {
    const key = await service.issue();
    const { directory } = service.service;
    await service.database.query(
      (sql) => sql`update keys set hash = sha256('elsewhere') where license_id = ${key.licenseUuid}::uuid`,
    );
    expect((await validate(key)).status).toBe(401);
    expect(directory.get(hashOf(key))).toBeNull();
    await service.database.query(
      (sql) => sql`
        update keys set hash = ${`\\x${hashApiKey(key.apiKey)}`}::text::bytea
         where license_id = ${key.licenseUuid}::uuid`,
    );
    expect(await timeUntil(key, { status: 200 })).toBeLessThan(WITHIN_MS);
  });

  test("isAlive() is true in a process that was frozen after a pulse, and false after ten seconds without one", async () => {
    const clock = createTestClock(undefined, { stands: true });
    const { pulse } = createLonePulse(service.database, clock);
    expect(pulse.isAlive()).toBe(true);
    clock.advance(10_000);
    expect(pulse.isAlive()).toBe(false);
    await pulse.beat();
    clock.advance(15_000);
    expect(pulse.isAlive()).toBe(true);
    clock.advance(9_999);
    expect(pulse.isAlive()).toBe(true);
    clock.advance(1);
    expect(pulse.isAlive()).toBe(false);
  });
});

function isLike(value: object, expected: object): boolean {
  try {
    expect(value).toMatchObject(expected);
    return true;
  } catch {
    return false;
  }
}
